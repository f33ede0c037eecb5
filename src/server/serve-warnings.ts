import type { ServeSettings, Settings, SourceSettings } from '../config/settings.ts';

/** Something that an operator should know about settings that can be used. */
export interface ServeWarning {
  source?: string;
  message: string;
  hint: string;
}

/** Warns of pages that anybody may read, short passwords and webhook secrets that have expired. */
export function serveWarnings(
  serve: ServeSettings,
  sources: readonly SourceSettings[],
  now: number,
): readonly ServeWarning[] {
  return [
    ...openPages(serve, 'serve', 'the status page and the metrics'),
    ...shortPassword(serve),
    ...sources.flatMap((source) => endedSecrets(source, now)),
  ];
}

/** Warns of `pages` that whoever reaches the address may read; `setting` holds its host. */
export function openPages(
  { host, auth }: Pick<ServeSettings, 'host' | 'auth'>,
  setting: 'serve' | 'worker',
  pages: string,
): ServeWarning[] {
  if (auth !== undefined || isLoopback(host)) return [];
  const message = `${setting} listens on ${host}, and whoever reaches it may read ${pages}`;
  return [{ message, hint: `set serve.auth, or ${setting}.host to 127.0.0.1 behind a proxy that asks for a password` }];
}

/** Shorter passwords can be guessed, however slowly each guess is answered. */
const LEAST_PASSWORD = 12;

function shortPassword({ auth }: ServeSettings): ServeWarning[] {
  if (auth === undefined || auth.password.length >= LEAST_PASSWORD) return [];
  const message = `the password of the status page has fewer than ${LEAST_PASSWORD} characters`;
  return [{ message, hint: 'set serve.auth.password to a longer one, such as what `openssl rand -base64 18` prints' }];
}

function isLoopback(host: string): boolean {
  return /^127(?:\.\d{1,3}){3}$|^(?:localhost|::1|\[::1\])$/i.test(host);
}

function endedSecrets({ name, webhook }: SourceSettings, now: number): ServeWarning[] {
  const secrets = webhook?.secrets ?? [];
  const ended = secrets.filter(({ until = Infinity }) => until < now);
  const last = Math.max(...ended.map(({ until = 0 }) => until));
  if (ended.length === 0) return [];
  const since = new Date(last).toISOString();
  if (ended.length === secrets.length) {
    const message = `no webhook secret holds any more, the last one since ${since}: every delivery is refused`;
    return [{ source: name, message, hint: "put the sender's secret of today under webhook.secrets" }];
  }
  const message = `${ended.length} of ${secrets.length} webhook secrets hold no more, the last one since ${since}`;
  return [{ source: name, message, hint: 'take out of webhook.secrets what the sender does not use any more' }];
}

/** Warns of settings files that hold secrets and that other users may read, and of settings that have no effect. */
export function settingsWarnings({
  exposed,
  deprecated,
  worker,
  memory,
}: Pick<Settings, 'exposed' | 'deprecated' | 'worker' | 'memory'>): readonly ServeWarning[] {
  const files = exposed.map((file) => ({
    message: `${file} holds secrets, and others than its owner may read it`,
    hint: `take the secrets from the environment or from files (\${…}, \${file:…}), or: chmod 600 ${file}`,
  }));
  const ignored = { 'worker.range_pages': worker.range_pages, memory };
  return [
    ...files,
    ...deprecated.map((message) => ({ message, hint: 'rename the field' })),
    ...Object.entries(ignored).flatMap(([name, value]) => {
      const message = `${name} in the settings is deprecated and has no effect`;
      return value === undefined ? [] : [{ message, hint: 'remove the line' }];
    }),
  ];
}
