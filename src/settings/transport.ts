import { isIP } from 'node:net';
import type { SettingsFinding } from './file/fault.ts';
import type { SourcesFile } from './settings.ts';
import { postgresUrl, POSTGRES } from './warehouse-address.ts';

/** True for names and addresses that never leave this machine, as they stand in a URL. */
function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  if (isIP(bare) === 4) return bare.startsWith('127.');
  return bare === '::1' || bare.startsWith('::ffff:7f') || bare === 'localhost' || bare.endsWith('.localhost');
}

/** Addresses to which a source's credential would be sent without encryption, unless `allow_insecure` says so. */
export function insecureFindings(sources: SourcesFile): SettingsFinding[] {
  return Object.entries(sources).flatMap(([name, { base_url, auth, allow_insecure }]): SettingsFinding[] => {
    if (allow_insecure) return [];
    const tokens = auth.type === 'oauth' ? auth.token_url : undefined;
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

/**
 * Why rows and password would go unencrypted to a Postgres over the network, as `expected …` without any part of the
 * address; null if they would not, or if `sslmode=disable` allows it. `env` as `pg` reads it.
 */
export function warehouseTransportFault(address: string, env: NodeJS.ProcessEnv): string | null {
  if (!POSTGRES.test(address)) return null;
  const { hostname, searchParams } = postgresUrl(address);
  const isSaid = ['sslmode', 'ssl'].some((name) => searchParams.has(name)) || (env['PGSSLMODE'] ?? '') !== '';
  const host = searchParams.get('host') || decodeURIComponent(hostname) || env['PGHOST'] || 'localhost';
  // The host of a Unix socket is a path.
  if (isSaid || host.startsWith('/') || isLoopback(host)) return null;
  return 'expected sslmode in the address, because rows and password would go readable over the network: sslmode=verify-full, or sslmode=disable where the way to the server is safe';
}
