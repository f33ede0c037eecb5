import path from 'node:path';
import pino from 'pino';
import { openApp } from '../../src/server/app.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import { clockShowing } from '../support/hurried-clock.ts';

/**
 * A sync by the config named first, at that moment (epoch milliseconds), which kills itself at the transaction of that
 * number in which a window is dropped: before it, while it is under way, or behind it.
 */
const [config = '', now = '', nth = '', when = ''] = process.argv.slice(2);
const settings = loadSettings({ path: config, env: {}, cwd: path.dirname(config) });
const [source] = Object.values(settings.sources);
if (source === undefined) throw new Error('the config has one source');
const app = await openApp({
  source,
  clock: clockShowing(() => Number(now)),
  log: pino({ level: 'silent' }),
  secrets: [...settings.secrets],
});
const kill = (): boolean => process.kill(process.pid, 'SIGKILL');
const { warehouse } = app;
const apply = warehouse.apply.bind(warehouse);
let drops = 0;
warehouse.apply = async (statements, lease) => {
  const isDrop = statements.some(({ sql }) => /delete from "?[^ ]*_sync_versions/i.test(sql));
  if (!isDrop || (drops += 1) !== Number(nth)) return apply(statements, lease);
  if (when === 'before') kill();
  const applied = apply(statements, lease);
  if (when === 'during') setImmediate(kill);
  await applied;
  kill();
};
await app.sync({
  command: 'sync',
  resources: app.source.resources,
  restart: false,
  signal: new AbortController().signal,
  watcher: { started: () => undefined, page: () => undefined, ended: () => undefined },
});
await app.close();
