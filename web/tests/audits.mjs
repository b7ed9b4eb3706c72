// Runs the audits of graphql-http against an endpoint and prints what is not ok.
// usage: node audits.mjs <endpoint>
import { serverAudits } from 'graphql-http';

const url = process.argv[2];
let ok = 0;
for (const audit of serverAudits({ url, fetchFn: fetch })) {
  const result = await audit.fn();
  if (result.status === 'ok') ok++;
  else console.log(`${result.status} ${result.id} ${result.name}: ${result.reason}`);
}
console.log(`${ok} audits ok`);
