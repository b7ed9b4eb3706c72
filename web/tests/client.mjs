// Uses the server as an app does, through the npm client graphql-ws.
// usage: node client.mjs <watcher's endpoint> <its token> <reader's endpoint> <its token>
import assert from 'node:assert/strict';
import { createClient } from 'graphql-ws';
import WebSocket from 'ws';

const [watcherAt, watcher, readerAt, reader] = process.argv.slice(2);
const connect = (endpoint, authorization) => createClient({
  url: endpoint.replace(/^http/, 'ws'), webSocketImpl: WebSocket, connectionParams: { authorization }, retryAttempts: 0, lazy: true,
});
const once = async (client, query) => {
  for await (const result of client.iterate({ query })) return result;
};

const laptop = connect(watcherAt, `Bearer ${watcher}`);
const phone = connect(readerAt, `Bearer ${reader}`);
const events = laptop.iterate({
  query: 'subscription { inboxChanged { reasons conversationId conversation { read unread } badge { unread } } }' });
assert.deepEqual((await events.next()).value.data.inboxChanged.reasons, ['RESYNC']);

const read = await once(phone, 'mutation { markRead(input: { conversationId: "c1", seq: 8 }) { conversation { read unread } } }');
assert.deepEqual(read.data.markRead.conversation, { read: 8, unread: 4 });
const hint = (await events.next()).value.data.inboxChanged;
assert.deepEqual(hint, { reasons: ['READ'], conversationId: 'c1', conversation: { read: 8, unread: 4 }, badge: { unread: 4 } });
await events.return();

const invalid = connect(readerAt, `Bearer ${reader}`);
await assert.rejects(once(invalid, '{ nope }'), (errors) => errors[0].extensions.code === 'GRAPHQL_VALIDATION_FAILED');
await assert.rejects(once(connect(readerAt, 'Bearer wrong'), '{ badge { unread } }'), (e) => e.code === 4403);
await Promise.all([laptop.dispose(), phone.dispose(), invalid.dispose()]);
console.log('client ok');
