import { ConfigError } from '../../model/errors.ts';
import type { SourceSettings, WebhookSettings } from '../../settings/settings.ts';

/** The one source that receives webhooks, of that name if one is given. Throws `ConfigError` if there is not just one. */
export function receivingSource(
  sources: readonly SourceSettings[],
  name: string | undefined,
): { source: SourceSettings; webhook: WebhookSettings } {
  const named = name === undefined ? sources : sources.filter((source) => source.name === name);
  const found = named.flatMap((source) => (source.webhook === null ? [] : [{ source, webhook: source.webhook }]));
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  const names = sources.filter(({ webhook }) => webhook !== null).map((source) => source.name);
  if (names.length === 0) {
    throw new ConfigError('usage', 'no source of the config receives webhooks', {
      hint: 'webhook.secrets in the settings of a source makes it do so',
    });
  }
  const what = name === undefined ? 'several sources receive webhooks' : `no source "${name}" receives webhooks`;
  throw new ConfigError('usage', what, { hint: `name one of ${names.join(', ')} with --source` });
}
