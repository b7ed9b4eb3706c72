// The schema is held to graphql-eslint's recommendations, but that not every type
// has an id, and that descriptions stand on one line.
import graphql from '@graphql-eslint/eslint-plugin';

export default [
  {
    files: ['**/*.graphqls'],
    languageOptions: { parser: graphql.parser, parserOptions: { graphQLConfig: { schema: new URL('../../schema.graphqls', import.meta.url).pathname } } },
    plugins: { '@graphql-eslint': graphql },
    rules: {
      ...graphql.configs['flat/schema-recommended'].rules,
      '@graphql-eslint/strict-id-in-types': 'off',
      '@graphql-eslint/description-style': ['error', { style: 'inline' }],
    },
  },
];
