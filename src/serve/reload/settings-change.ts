import { isDeepStrictEqual } from 'node:util';
import type { Settings, SourceSettings } from '../../settings/settings.ts';

/** A source whose settings are not what they were. */
export interface ChangedSource {
  old: SourceSettings;
  source: SourceSettings;
  /** Names of its settings that changed, such as `auth`. */
  fields: readonly string[];
  /** True if its work has to begin anew: false where only the receiver of its webhooks is concerned. */
  isWork: boolean;
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

/** Not compared: what stands for the file itself, and what is compared source by source. */
const NOT_COMPARED: ReadonlySet<string> = new Set(['path', 'sources', 'refused', 'exposed', 'secrets']);
/** Read for each delivery by the receiver alone. */
const OF_RECEIVER = ['secrets', 'public_url', 'max_body'] as const;

/** Compares what two readings say; a source that is in both is unchanged if all of its settings and its profile are equal. Pure. */
export function settingsChange(old: Settings, next: Settings): SettingsChange {
  const both = Object.values(next.sources).flatMap((source) => {
    const was = old.sources[source.name];
    return was === undefined ? [] : [changedSource(was, source)];
  });
  return {
    added: Object.values(next.sources).filter(({ name }) => old.sources[name] === undefined),
    removed: Object.values(old.sources).filter(({ name }) => next.sources[name] === undefined),
    changed: both.filter(({ fields }) => fields.length > 0),
    unchanged: both.filter(({ fields }) => fields.length === 0).map(({ source }) => source.name),
    beside: differing(old, next).flatMap((name) =>
      NOT_COMPARED.has(name)
        ? []
        : isListening(name)
          ? differing(old[name], next[name]).map((own) => `${name}.${own}`)
          : [name],
    ),
  };
}

/** Settings of a command that listens are compared one by one. */
function isListening(name: string): name is 'serve' | 'worker' {
  return name === 'serve' || name === 'worker';
}

function changedSource(old: SourceSettings, source: SourceSettings): ChangedSource {
  const isWork = differing(withoutReceiver(old), withoutReceiver(source)).length > 0;
  return { old, source, fields: differing(old, source), isWork };
}

function withoutReceiver(source: SourceSettings): object {
  if (source.webhook === null) return source;
  const own = Object.entries(source.webhook).filter(([name]) => !OF_RECEIVER.some((one) => one === name));
  return { ...source, webhook: Object.fromEntries(own) };
}

/** Names of the members that are not equal. */
function differing(one: object, other: object): string[] {
  const [left, right] = [new Map(Object.entries(one)), new Map(Object.entries(other))];
  const names = new Set([...left.keys(), ...right.keys()]);
  return [...names].filter((name) => !isDeepStrictEqual(left.get(name), right.get(name)));
}

/**
 * The new settings, in which a source that is refused now keeps the settings that it had: a slip in the file of one
 * source must not end it.
 */
export function keepingRefused(old: Settings, next: Settings): Settings {
  const kept = next.refused.flatMap(({ name }) => {
    const source = old.sources[name];
    return source === undefined ? [] : [[name, source] as const];
  });
  return { ...next, sources: { ...next.sources, ...Object.fromEntries(kept) } };
}

/** What takes effect with the next start only, and of which command. */
const AT_START: Readonly<Record<string, string>> = {
  'serve.host': 'the address that serve listens on changes with the next start of serve',
  'serve.port': 'the port that serve listens on changes with the next start of serve',
  'worker.host': 'the address that worker listens on changes with the next start of worker',
  'worker.port': 'the port that worker listens on changes with the next start of worker',
  memory: 'how much memory the process may take changes with the next start of serve',
  control: 'the path of the control socket changes with the next start of serve',
};

/** What was done, as one sentence for a person. */
export function changeText({ added, removed, changed, unchanged, beside }: SettingsChange): string {
  const waits = beside.flatMap((name) => AT_START[name] ?? []);
  const parts = [
    ...added.map(({ name }) => `${name} was added`),
    ...removed.map(({ name }) => `${name} was taken out`),
    ...changed.map(({ source, fields }) => `${source.name} has changed (${fields.join(', ')})`),
    ...beside.filter((name) => AT_START[name] === undefined).map((name) => `${name} has changed`),
  ];
  const rest = unchanged.length > 0 && parts.length > 0 ? [`unchanged: ${unchanged.join(', ')}`] : [];
  const done = parts.length === 0 && waits.length === 0 ? ['nothing has changed'] : [...parts, ...rest];
  return `the settings were read again: ${[...done, ...waits].join('; ')}`;
}
