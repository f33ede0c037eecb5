import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { settingsError } from '../config/file/yaml-file.ts';
import type { Settings, SourceSettings } from '../config/settings.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import type { ControlAnswer, ControlOrigin } from './controls/control-request.ts';
import type { SettingsStatus } from './status/snapshot.ts';

/** A source whose settings have changed. */
export interface ChangedSource {
  old: SourceSettings;
  source: SourceSettings;
  /** Names of its settings that changed, such as `auth`. */
  fields: readonly string[];
}

/** The difference between two readings of the settings. */
export interface SettingsChange {
  added: readonly SourceSettings[];
  removed: readonly SourceSettings[];
  changed: readonly ChangedSource[];
  /** Names of the other sources. */
  unchanged: readonly string[];
  /** Changed settings outside of the sources, such as `log` or `serve.auth`. */
  others: readonly string[];
}

interface ReloaderOptions {
  /** The settings that the process started with. */
  settings: Settings;
  /** Reads the settings again. Throws `ConfigError` if they cannot be used. */
  load: () => Settings;
  /** Applies a change. If it throws, the error is reported, and the change counts as applied. */
  apply: (change: SettingsChange, settings: Settings) => Promise<void>;
  clock: Clock;
  log: Logger;
}

const REFUSED = 'the settings were read again and cannot be used; the running ones stay';

/** Reads the settings again while the process runs. */
export function createReloader({ settings, load, apply, clock, log }: ReloaderOptions) {
  let current = settings;
  let refused: SettingsStatus | null = null;
  let running: Promise<unknown> = Promise.resolve();
  let waiting: Promise<ControlAnswer> | null = null;

  function refuse(error: unknown): ControlAnswer {
    const { code, hint = null } = error instanceof SyncError ? error : { code: 'bug' };
    refused = { at: clock.now(), code, message: messageOf(error), hint };
    const message = `${REFUSED}: ${refused.message}`;
    log.error({ error }, message);
    return { done: false, message, hint };
  }

  async function reloadNow(): Promise<ControlAnswer> {
    const next = load();
    // A mistake in the file of one source must not stop it: it keeps the settings that it had.
    const faulty = next.refused.filter(({ name }) => current.sources[name] !== undefined);
    const kept = faulty.flatMap(({ name }) => current.sources[name] ?? []).map((source) => [source.name, source]);
    const usable: Settings = { ...next, sources: { ...next.sources, ...Object.fromEntries(kept) } };
    const change = compareSettings(current, usable);
    const message = describeChange(change);
    current = usable;
    await apply(change, usable);
    log.info(message);
    refused = null;
    if (faulty.length === 0) return { done: true, message, hint: null };
    const answer = refuse(settingsError(...faulty));
    return { ...answer, message: `${message}\n${answer.message}` };
  }

  return {
    /** One at a time; all requests that come meanwhile share one further reading. Never rejects. */
    reload: ({ via, by }: ControlOrigin): Promise<ControlAnswer> => {
      waiting ??= running.then(async () => {
        waiting = null;
        log.info({ via, by }, 'reading the settings again');
        const answer = reloadNow().catch(refuse);
        running = answer;
        return answer;
      });
      return waiting;
    },
    /** Why the settings that were read last are not used; null if they are. */
    refused: (): SettingsStatus | null => refused,
  };
}

/** Not compared: what identifies the file itself, and what is compared source by source. */
const NOT_COMPARED: ReadonlySet<string> = new Set(['path', 'sources', 'refused', 'exposed', 'secrets']);
/** What takes effect with the next start only. */
const NEEDS_RESTART: ReadonlySet<string> = new Set([
  'serve.host',
  'serve.port',
  'worker.host',
  'worker.port',
  'control',
]);

function compareSettings(old: Settings, next: Settings): SettingsChange {
  const both = Object.values(next.sources).flatMap((source) => {
    const before = old.sources[source.name];
    return before === undefined ? [] : [{ old: before, source, fields: changedFields(before, source) }];
  });
  const others = changedFields(old, next).flatMap((name) =>
    name === 'serve' || name === 'worker'
      ? changedFields(old[name], next[name]).map((own) => `${name}.${own}`)
      : [name],
  );
  return {
    added: Object.values(next.sources).filter(({ name }) => old.sources[name] === undefined),
    removed: Object.values(old.sources).filter(({ name }) => next.sources[name] === undefined),
    changed: both.filter(({ fields }) => fields.length > 0),
    unchanged: both.filter(({ fields }) => fields.length === 0).map(({ source }) => source.name),
    others: others.filter((name) => !NOT_COMPARED.has(name)),
  };
}

function changedFields(old: object, next: object): string[] {
  const [before, after] = [new Map(Object.entries(old)), new Map(Object.entries(next))];
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].filter((name) => !isDeepStrictEqual(before.get(name), after.get(name)));
}

/** One sentence for a user. */
function describeChange({ added, removed, changed, unchanged, others }: SettingsChange): string {
  const parts = [
    ...added.map(({ name }) => `${name} was added`),
    ...removed.map(({ name }) => `${name} was taken out`),
    ...changed.map(({ source, fields }) => `${source.name} has changed (${fields.join(', ')})`),
    ...others.map((name) => (NEEDS_RESTART.has(name) ? `${name} changes with the next start` : `${name} has changed`)),
  ];
  const rest = unchanged.length > 0 ? [`unchanged: ${unchanged.join(', ')}`] : [];
  return `the settings were read again: ${parts.length === 0 ? 'nothing has changed' : [...parts, ...rest].join('; ')}`;
}
