import type { SettingsFinding } from './file/fault.ts';
import { isLoopback } from './loopback.ts';
import type { SourcesFile } from './settings.ts';

/** Addresses to which a source's credential would be sent without encryption, unless `allow_insecure` says so. */
export function insecureFindings(sources: SourcesFile): SettingsFinding[] {
  return Object.entries(sources).flatMap(([name, { base_url, auth, allow_insecure }]): SettingsFinding[] => {
    if (allow_insecure) return [];
    const tokens = auth?.type === 'oauth' ? auth.token_url : undefined;
    if (auth === undefined || auth.type === 'none') return [];
    const fields = [
      { path: ['sources', name, 'base_url'], url: base_url },
      ...(tokens === undefined ? [] : [{ path: ['sources', name, 'auth', 'token_url'], url: tokens }]),
    ];
    return fields.flatMap(({ path, url }): SettingsFinding[] => {
      const { protocol, hostname } = new URL(url);
      if (protocol === 'https:' || isLoopback(hostname)) return [];
      const message = `expected https, because the credential would go readable over the network, got http (where the way is safe, set sources.${name}.allow_insecure: true)`;
      return [{ path, part: 'value', message }];
    });
  });
}
