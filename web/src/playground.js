// Starts GraphiQL on the tabs that the server gave. The authorization header of
// a tab also goes into connection_init, so that subscriptions know the device.
const mount = document.getElementById('playground');
const { endpoint, tabs } = JSON.parse(mount.dataset.settings);
const url = new URL(endpoint, location.href);
const socketURL = new URL(endpoint, location.href);
socketURL.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';

// Nothing is kept between visits: tokens do not belong into a browser's storage.
const memory = new Map();
const storage = {
  getItem: (key) => memory.get(key) ?? null,
  setItem: (key, value) => void memory.set(key, value),
  removeItem: (key) => void memory.delete(key),
  clear: () => memory.clear(),
  get length() {
    return memory.size;
  },
};

const fetcher = GraphiQL.createFetcher({ url: url.href, subscriptionUrl: socketURL.href });
ReactDOM.createRoot(mount).render(
  React.createElement(GraphiQL, {
    fetcher,
    storage,
    defaultTabs: tabs,
    defaultEditorToolsVisibility: 'headers',
    shouldPersistHeaders: false,
  }),
);
