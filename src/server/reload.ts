import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { settingsError } from '../config/file/yaml-file.ts';
import type { Settings, SourceSettings } from '../config/settings.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import type { ControlAnswer, ControlOrigin } from './controls/control-request.ts';

/** A source whose settings are not what they were. */
export interface ChangedSource {
  old: SourceSettings;
  source: SourceSettings;
  /** Names of its settings that changed, such as `auth`. */
  fields: readonly string[];
}

/** What differs between two readings of the settings. */
export interface SettingsChange {
  added: readonly SourceSettings[];
  removed: readonly SourceSettings[];
  changed: readonly ChangedSource[];
  /** Names of the sources that nothing changed of. */
  unchanged: readonly string[];
  /** Settings beside the sources that changed, such as `log` or `serve.auth`. */
  beside: readonly string[];
}

/** Why settings that were read again are not used, since when (epoch milliseconds): those from before stay. */
interface RefusedSettings {
  at: number;
  code: string;
  /** Every fault, one per line, with file, line and field. */
  message: string;
  hint: string | null;
}

interface ReloaderOptions {
  /** Those that the process began with. */
  settings: Settings;
  /** Reads them again, whole. Throws `ConfigError` if they cannot be used. */
  load: () => Settings;
  /** Puts a change into effect. What throws here is told, and the change counts as made. */
  apply: (change: SettingsChange, settings: Settings) => Promise<void>;
  clock: Clock;
  log: Logger;
}

/** Reads the settings again while the process works with them. */
interface Reloader {
  /** One at a time; a request that comes meanwhile is served by one further reading. Never rejects. */
  reload(origin: ControlOrigin): Promise<ControlAnswer>;
  /** Null if those are in use that were read last. */
  refused(): RefusedSettings | null;
}

const REFUSED = 'the settings were read again and cannot be used; the running ones stay';

export function createReloader({ settings, load, apply, clock, log }: ReloaderOptions): Reloader {
  let current = settings;
  let refused: RefusedSettings | null = null;
  let running: Promise<unknown> = Promise.resolve();
  let waiting: Promise<ControlAnswer> | null = null;

  function refuse(error: unknown): ControlAnswer {
    const { code, hint = null } = error instanceof SyncError ? error : { code: 'bug' };
    refused = { at: clock.now(), code, message: messageOf(error), hint };
    log.error({ error }, `${REFUSED}: ${refused.message}`);
    return { done: false, message: `${REFUSED}: ${refused.message}`, hint };
  }

  async function reloadNow(): Promise<ControlAnswer> {
    const next = load();
    const faulty = next.refused.filter(({ name }) => current.sources[name] !== undefined);
    // A slip in the file of one source must not end it: it keeps the settings that it had.
    const isFaulty = (name: string): boolean => faulty.some((source) => source.name === name);
    const kept = Object.fromEntries(Object.entries(current.sources).filter(([name]) => isFaulty(name)));
    const usable: Settings = { ...next, sources: { ...next.sources, ...kept } };
    const change = settingsChange(current, usable);
    const message = changeText(change);
    current = usable;
    await apply(change, usable);
    log.info(message);
    refused = null;
    if (faulty.length === 0) return { done: true, message, hint: null };
    const answer = refuse(settingsError(...faulty));
    return { ...answer, message: `${message}\n${answer.message}` };
  }

  return {
    reload: ({ via, by }) => {
      waiting ??= running.then(async () => {
        waiting = null;
        log.info({ via, by }, 'reading the settings again');
        const answer = reloadNow().catch(refuse);
        running = answer;
        return answer;
      });
      return waiting;
    },
    refused: () => refused,
  };
}

/** Not compared: what stands for the file itself, and what is compared source by source. */
const NOT_COMPARED: ReadonlySet<string> = new Set([
  'path',
  'sources',
  'refused',
  'exposed',
  'deprecated',
  'secrets',
  'memory',
]);
/** What takes effect with the next start only. */
const AT_START: ReadonlySet<string> = new Set(['serve.host', 'serve.port', 'worker.host', 'worker.port', 'control']);

/** A source that is in both is unchanged if all of its settings and its profile are equal. */
function settingsChange(old: Settings, next: Settings): SettingsChange {
  const both = Object.values(next.sources).flatMap((source) => {
    const was = old.sources[source.name];
    return was === undefined ? [] : [{ old: was, source, fields: differing(was, source) }];
  });
  const beside = differing(old, next).flatMap((name) =>
    name === 'serve' || name === 'worker' ? differing(old[name], next[name]).map((own) => `${name}.${own}`) : [name],
  );
  return {
    added: Object.values(next.sources).filter(({ name }) => old.sources[name] === undefined),
    removed: Object.values(old.sources).filter(({ name }) => next.sources[name] === undefined),
    changed: both.filter(({ fields }) => fields.length > 0),
    unchanged: both.filter(({ fields }) => fields.length === 0).map(({ source }) => source.name),
    beside: beside.filter((name) => !NOT_COMPARED.has(name)),
  };
}

/** Names of the members that are not equal. */
function differing(one: object, other: object): string[] {
  const [left, right] = [new Map(Object.entries(one)), new Map(Object.entries(other))];
  const names = new Set([...left.keys(), ...right.keys()]);
  return [...names].filter((name) => !isDeepStrictEqual(left.get(name), right.get(name)));
}

/** What was done, as one sentence for a person. */
function changeText({ added, removed, changed, unchanged, beside }: SettingsChange): string {
  const parts = [
    ...added.map(({ name }) => `${name} was added`),
    ...removed.map(({ name }) => `${name} was taken out`),
    ...changed.map(({ source, fields }) => `${source.name} has changed (${fields.join(', ')})`),
    ...beside.map((name) => (AT_START.has(name) ? `${name} changes with the next start` : `${name} has changed`)),
  ];
  const rest = unchanged.length > 0 ? [`unchanged: ${unchanged.join(', ')}`] : [];
  return `the settings were read again: ${parts.length === 0 ? 'nothing has changed' : [...parts, ...rest].join('; ')}`;
}
