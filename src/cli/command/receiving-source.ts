import { ConfigError } from '../../model/errors.ts';
import type { Settings, SourceSettings, WebhookSettings } from '../../settings/settings.ts';

type Receiving = { source: SourceSettings; webhook: WebhookSettings };

/** The one source that receives webhooks. Throws `ConfigError` if there is not just one. */
export function receivingSource({ sources }: Pick<Settings, 'sources'>): Receiving {
  const found = Object.values(sources).flatMap((source): Receiving[] =>
    source.webhook === null ? [] : [{ source, webhook: source.webhook }],
  );
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  const names = found.map(({ source }) => source.name).join(', ');
  throw first === undefined
    ? new ConfigError('usage', 'no webhooks are received', {
        hint: 'set webhook.secrets in the settings of the source',
      })
    : new ConfigError('usage', 'several sources receive webhooks', { hint: `name one of ${names} with --source` });
}
