import { ConfigError } from '../../model/errors.ts';
import type { Settings, SourceSettings, WebhookSettings } from '../../settings/settings.ts';

/** The one source that receives webhooks. Throws `ConfigError` if there is not just one. */
export function receivingSource({ sources }: Pick<Settings, 'sources'>): {
  source: SourceSettings;
  webhook: WebhookSettings;
} {
  const found = Object.values(sources).flatMap((source) =>
    source.webhook === null ? [] : [{ source, webhook: source.webhook }],
  );
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  if (first !== undefined) {
    throw new ConfigError('usage', 'several sources receive webhooks', {
      hint: `name one of ${found.map(({ source }) => source.name).join(', ')} with --source`,
    });
  }
  throw new ConfigError('usage', `${Object.keys(sources).join(', ')}: no webhooks are received`, {
    hint: 'set webhook.secrets in the settings of the source',
  });
}
