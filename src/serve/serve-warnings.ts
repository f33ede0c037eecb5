import type { ServeSettings, Settings, SourceSettings } from '../settings/settings.ts';

/** What an operator should know of settings that can be used all the same. */
export interface ServeWarning {
  source?: string;
  message: string;
  hint: string;
}

/** Without these, whoever reaches the address reads the pages; and what has run out signs no delivery any more. */
export function serveWarnings(
  serve: ServeSettings,
  sources: readonly SourceSettings[],
  now: number,
): readonly ServeWarning[] {
  return [...openPages(serve), ...shortPassword(serve), ...sources.flatMap((source) => endedSecrets(source, now))];
}

function openPages({ host, auth }: ServeSettings): ServeWarning[] {
  if (auth !== undefined || isLoopback(host)) return [];
  const message = `serve listens on ${host}, and whoever reaches it may read the status page and the metrics`;
  return [{ message, hint: 'set serve.auth, or serve.host to 127.0.0.1 behind a proxy that asks for a password' }];
}

/** Shorter ones are guessed, however slowly each guess is answered. */
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

/** A secret that stands in a file of the settings is everybody's who may read that file. */
export function exposedFiles({ exposed }: Pick<Settings, 'exposed'>): readonly ServeWarning[] {
  return exposed.map((file) => ({
    message: `${file} holds secrets, and others than its owner may read it`,
    hint: `take the secrets from the environment or from files (\${…}, \${file:…}), or: chmod 600 ${file}`,
  }));
}
