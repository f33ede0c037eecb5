/**
 * The setting `http` of a source: proxy, certificate authorities and client certificate. `networkFindings` checks the files
 * that it names, `resolveNetwork` reads them.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { z } from 'zod';
import { messageOf } from '../model/errors.ts';
import type { SettingsFinding } from './file/yaml-file.ts';
import { documented } from './profile/basic-fields.ts';

const PROXY_EXPECTED = 'expected the http(s) address of a proxy such as http://proxy.example.com:3128, or none';
const file = z.string().min(1).optional();

export const networkSchema = z
  .strictObject({
    proxy: z
      .union([
        z.literal('none'),
        z.url({ protocol: /^https?$/, error: PROXY_EXPECTED }).refine((url) => !/[?#]/.test(url), PROXY_EXPECTED),
      ])
      .optional()
      .meta({
        description: 'Proxy, with user:password if needed; `none` disables HTTPS_PROXY, HTTP_PROXY and NO_PROXY',
        examples: ['http://proxy.example.com:3128'],
      }),
    ca_file: documented(file)('PEM file of further certificate authorities', ['/etc/ssl/own-authority.pem']),
    cert_file: documented(file)('PEM file of the client certificate; needs key_file', ['/run/secrets/client.pem']),
    key_file: file.meta({ description: 'PEM file of its private key', examples: ['/run/secrets/client-key.pem'] }),
    key_passphrase: z.string().min(1).optional().meta({ description: 'Passphrase of that key' }),
  })
  .refine(({ cert_file, key_file }) => (cert_file === undefined) === (key_file === undefined), {
    error: 'expected cert_file and key_file together',
  });

type NetworkFields = z.output<typeof networkSchema>;

/** The resolved setting: proxy URLs ('' for none), and the contents of the TLS files. */
export interface Network extends TlsFiles {
  readonly proxies: { readonly http: string; readonly https: string; readonly except: string };
}

/** The contents of the TLS files of a source. */
interface TlsFiles {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly passphrase?: string | undefined;
}

const TLS_FIELDS = { ca_file: 'ca', cert_file: 'cert', key_file: 'key' } as const;

/** Finds faults in the TLS files of a source; the paths of the findings are relative to the source. */
export function networkFindings(settings: NetworkFields, cwd: string): SettingsFinding[] {
  const found = tlsFiles(settings).flatMap(({ field, name }): SettingsFinding[] => {
    const fault = fileFault(resolve(cwd, name), field);
    return fault === null ? [] : [{ path: ['http', field], part: 'value', message: fault }];
  });
  return found.length > 0 ? found : pairFindings(settings, cwd);
}

function tlsFiles(settings: NetworkFields): { field: keyof typeof TLS_FIELDS; name: string }[] {
  return (['ca_file', 'cert_file', 'key_file'] as const).flatMap((field) =>
    settings[field] === undefined ? [] : [{ field, name: settings[field] }],
  );
}

function fileFault(path: string, field: keyof typeof TLS_FIELDS): string | null {
  const what = field === 'key_file' ? 'private key' : 'certificate';
  try {
    const marker = field === 'key_file' ? /-----BEGIN [A-Z ]*PRIVATE KEY-----/ : /-----BEGIN CERTIFICATE-----/;
    return marker.test(readFileSync(path, 'utf8')) ? null : `expected a PEM file with a ${what}, got something else`;
  } catch (error) {
    return `expected a readable PEM file with a ${what} (${messageOf(error).replace(/^(\w+).*/s, '$1')})`;
  }
}

/** Checks that the key belongs to the certificate, and the passphrase to the key. */
function pairFindings(settings: NetworkFields, cwd: string): SettingsFinding[] {
  try {
    createSecureContext(readFiles(settings, cwd));
    return [];
  } catch {
    const field = settings.key_file === undefined ? 'ca_file' : 'key_file';
    const message = 'expected files that TLS can use, the key of the certificate, and the passphrase of the key';
    return [{ path: ['http', field], part: 'value', message }];
  }
}

function readFiles(settings: NetworkFields, cwd: string): TlsFiles {
  const read = tlsFiles(settings).map(({ field, name }) => [
    TLS_FIELDS[field],
    readFileSync(resolve(cwd, name), 'utf8'),
  ]);
  const { key_passphrase: passphrase } = settings;
  return { ...Object.fromEntries(read), ...(passphrase === undefined ? {} : { passphrase }) };
}

/** Resolves the setting: reads the TLS files, and the proxies from the environment. Throws for unreadable files. */
export function resolveNetwork(settings: NetworkFields, cwd: string, env: NodeJS.ProcessEnv): Network {
  const { proxy } = settings;
  const url = proxy === 'none' ? '' : proxy;
  const proxies = url === undefined ? proxiesIn(env) : { http: url, https: url, except: '' };
  return { proxies, ...readFiles(settings, cwd) };
}

function proxiesIn(env: NodeJS.ProcessEnv): Network['proxies'] {
  const either = (name: string): string => env[name.toLowerCase()] ?? env[name] ?? '';
  const http = either('HTTP_PROXY');
  return { http, https: either('HTTPS_PROXY') || http, except: either('NO_PROXY') };
}

/** Returns texts that must not be logged: the key, its passphrase, and the proxy password in each encoding. */
export function networkSecrets({ proxies, key, passphrase }: Network): string[] {
  const passwords = [proxies.http, proxies.https].flatMap((proxy) => {
    const { username = '', password = '' } = URL.parse(proxy) ?? {};
    if (password === '') return [];
    const plain = decodeURIComponent(password);
    return [password, plain, Buffer.from(`${decodeURIComponent(username)}:${plain}`).toString('base64')];
  });
  return [...new Set([...passwords, key, passphrase].filter((text) => text !== undefined))];
}

/** Returns the network without settings: only the proxies of the environment. */
export function defaultNetwork(cwd: string, env: NodeJS.ProcessEnv): Network {
  return resolveNetwork(networkSchema.parse({}), cwd, env);
}
