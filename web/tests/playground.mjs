// Opens the playground in headless Chromium with every other host blocked, and
// runs the query, the subscription and the mutation of its tabs as a reader would.
// usage: node playground.mjs <base URL> <screenshot file>
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const [base, screenshot] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1'],
});
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  const outside = [];
  const problems = [];
  page.on('request', (r) => {
    if (!r.url().startsWith(base) && !r.url().startsWith('data:') && !r.url().startsWith('blob:')) outside.push(r.url());
  });
  page.on('pageerror', (e) => problems.push(String(e)));
  page.on('console', (m) => { if (m.type() === 'error') problems.push(m.text()); });

  await page.goto(`${base}/playground`);
  const tabs = page.locator('.graphiql-tab');
  await tabs.first().waitFor();
  assert.equal(await tabs.count(), 6, 'the playground opens with six tabs');
  const result = page.locator('.result-window .CodeMirror-code');
  // GraphiQL learns the operation of a tab a moment after it was opened.
  const open = async (p, n) => {
    await p.locator('.graphiql-tab').nth(n).locator('.graphiql-tab-button').click();
    await p.waitForTimeout(1000);
  };
  const run = () => page.locator('.graphiql-execute-button').click();
  const shows = async (text) => {
    await page.waitForFunction(
      (t) => document.querySelector('.result-window .CodeMirror')?.CodeMirror.getValue().includes(t), text, { timeout: 15000 });
  };

  await open(page, 0);
  await run();
  await shows('"c-ana-ben"');
  await shows('"unread": 4');

  // The mutation, from a page of its own: the laptop watches here.
  await open(page, 1);
  await run();
  await shows('RESYNC');
  const other = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await other.goto(`${base}/playground`);
  await open(other, 2);
  await other.locator('.graphiql-execute-button').click();
  await other.waitForFunction(() => document.querySelector('.result-window .CodeMirror')?.CodeMirror.getValue().includes('"read": 12'), null, { timeout: 15000 });
  await shows('READ');
  await shows('"read": 12');
  // Marked unread again, which the laptop sees; then who has read, and what a device that was away gets.
  const there = async (n, text) => {
    await open(other, n);
    await other.locator('.graphiql-execute-button').click();
    await other.waitForFunction(
      (t) => document.querySelector('.result-window .CodeMirror')?.CodeMirror.getValue().includes(t), text, { timeout: 15000 });
  };
  await there(3, '"read": 6');
  await shows('"read": 6');
  await there(4, '"readCount": 1');
  await there(5, '"c-ana-ben"');
  await page.screenshot({ path: screenshot });
  await other.screenshot({ path: screenshot.replace('.png', '-other.png') });
  assert.deepEqual(outside, [], 'no request leaves the machine');
  assert.deepEqual(problems, [], 'no errors on the page');
  console.log(await result.innerText());
} catch (e) {
  for (const p of browser.contexts().flatMap((c) => c.pages()).slice(0, 1)) await p.screenshot({ path: screenshot });
  throw e;
} finally {
  await browser.close();
}
