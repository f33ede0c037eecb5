import { isIP } from 'node:net';

/** True for names and addresses that never leave this machine, as they stand in a URL. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  if (isIP(bare) === 4) return bare.startsWith('127.');
  return bare === '::1' || bare.startsWith('::ffff:7f') || bare === 'localhost' || bare.endsWith('.localhost');
}
