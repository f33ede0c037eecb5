// Warnings at the start about settings that work but are unsafe.
import type { ServeSettings, Settings, SourceSettings } from '../config/settings.ts';

export interface ServeWarning {
  source?: string;
  message: string;
  hint: string;
}

/** Shorter passwords can be guessed, however slowly each guess is answered. */
const MIN_PASSWORD_CHARS = 12;

/** Warns of pages without a password, of short passwords, and of webhook secrets that have expired. */
export function serveWarnings(
  serve: ServeSettings,
  sources: readonly SourceSettings[],
  now: number,
): readonly ServeWarning[] {
  const { host, auth } = serve;
  const isShort = auth !== undefined && auth.password.length < MIN_PASSWORD_CHARS;
  const message = `the password of the status page has fewer than ${MIN_PASSWORD_CHARS} characters`;
  const hint = 'set serve.auth.password to a longer one, such as what `openssl rand -base64 18` prints';
  return [
    ...openPages(host, auth, 'serve', 'the status page and the metrics'),
    ...(isShort ? [{ message, hint }] : []),
    ...sources.flatMap((source) => expiredSecrets(source, now)),
  ];
}

/** Warns if anyone who can reach the host may read `pages`; `setting` contains the host. */
export function openPages(
  host: string,
  auth: ServeSettings['auth'],
  setting: 'serve' | 'worker',
  pages: string,
): ServeWarning[] {
  const isLoopback = /^127(?:\.\d{1,3}){3}$|^(?:localhost|::1|\[::1\])$/i.test(host);
  if (auth !== undefined || isLoopback) return [];
  const message = `${setting} listens on ${host}, and anyone who can reach it may read ${pages}`;
  return [{ message, hint: `set serve.auth, or ${setting}.host to 127.0.0.1 behind a proxy that asks for a password` }];
}

function expiredSecrets({ name, webhook }: SourceSettings, now: number): ServeWarning[] {
  const secrets = webhook?.secrets ?? [];
  const expired = secrets.filter(({ until = Infinity }) => until < now);
  if (expired.length === 0) return [];
  const since = new Date(Math.max(...expired.map(({ until = 0 }) => until))).toISOString();
  if (expired.length === secrets.length) {
    const message = `all webhook secrets have expired, the last one at ${since}: every delivery is refused`;
    return [{ source: name, message, hint: "put the sender's current secret under webhook.secrets" }];
  }
  const message = `${expired.length} of ${secrets.length} webhook secrets have expired, the last one at ${since}`;
  return [{ source: name, message, hint: 'remove from webhook.secrets what the sender does not use any more' }];
}

/** Warns of settings files with secrets that other users may read. */
export function settingsWarnings({ exposed }: Settings): readonly ServeWarning[] {
  return exposed.map((file) => ({
    message: `${file} holds secrets, and users other than its owner may read it`,
    hint: `take the secrets from the environment or from files (\${…}, \${file:…}), or: chmod 600 ${file}`,
  }));
}
