// Puts what the pages need into dist/, where the server embeds it: the files of
// the pinned packages, which npm ci verified against package-lock.json, and our own.
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';

const from = (path) => new URL(path, import.meta.url);
rmSync(from('dist/'), { recursive: true, force: true });
mkdirSync(from('dist/'));
writeFileSync(from('dist/.keep'), '');
for (const [source, name] of [
  ['node_modules/react/umd/react.production.min.js', 'react.production.min.js'],
  ['node_modules/react-dom/umd/react-dom.production.min.js', 'react-dom.production.min.js'],
  ['node_modules/graphiql/graphiql.min.js', 'graphiql.min.js'],
  ['node_modules/graphiql/graphiql.min.css', 'graphiql.min.css'],
  ['src/playground.js', 'playground.js'],
  ['src/playground.css', 'playground.css'],
]) {
  copyFileSync(from(source), from(`dist/${name}`));
}
