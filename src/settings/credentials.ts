import { secretsOf } from '../source/auth.ts';
import { alertSecrets } from './alerts-schema.ts';
import type { SettingsFile } from './settings.ts';

/** Credentials in the settings, as texts that must not be written. */
export function credentialsIn({
  sources,
  serve,
  alerts,
  privacy_key,
}: Pick<SettingsFile, 'sources' | 'serve' | 'alerts' | 'privacy_key'>): string[] {
  const found = [...(serve.auth === undefined ? [] : [serve.auth.password]), ...alertSecrets(alerts)];
  if (privacy_key !== undefined) found.push(privacy_key);
  for (const { auth, webhook, ping, hash_key } of Object.values(sources)) {
    if (hash_key !== undefined) found.push(hash_key);
    found.push(...(auth === undefined ? [] : secretsOf(auth)));
    for (const { value } of webhook?.secrets ?? []) found.push(value);
    // Whoever knows the address of a monitor can silence it.
    for (const url of Object.values(ping)) if (url !== undefined) found.push(url);
  }
  return found;
}

/** What signs requests to a bucket, which the environment alone holds. */
export function bucketSecrets(env: NodeJS.ProcessEnv): string[] {
  const { AWS_SECRET_ACCESS_KEY: key = '', AWS_SESSION_TOKEN: token = '' } = env;
  return [key, token].filter((text) => text !== '');
}
