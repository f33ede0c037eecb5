import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { config, faultsOf, lineAt, load, marked } from './in-folder.ts';

function pem(name: string): string {
  return readFileSync(new URL(`../http/certificates/${name}.pem`, import.meta.url), 'utf8');
}

const LOCKED = createPrivateKey(pem('key'))
  .export({ format: 'pem', type: 'pkcs8', cipher: 'aes-256-cbc', passphrase: 'a long passphrase' })
  .toString();
const FILES = {
  'ca.pem': pem('authority'),
  'cert.pem': pem('good'),
  'key.pem': pem('key'),
  'locked.pem': LOCKED,
  'other.pem': 'no certificate',
};

/** A config whose source has these `http` settings. */
function withHttp(http: string): string {
  return config({ 'max_wait: 15m': `max_wait: 15m\n    http: ${http}` });
}

function networkFor(http: string, env: NodeJS.ProcessEnv = {}) {
  return load({ 'config.yaml': withHttp(http), ...FILES }, env).sources['blog']?.network;
}

const ENV = { HTTPS_PROXY: 'http://env:3128', NO_PROXY: 'localhost' };

describe('the way to a service', () => {
  it('is the usual one without settings', () => {
    expect(load({ 'config.yaml': config() }).sources['blog']?.network).toEqual({
      proxies: { http: '', https: '', except: '' },
    });
  });

  it.each<[string, NodeJS.ProcessEnv, object]>([
    ['{}', ENV, { http: '', https: 'http://env:3128', except: 'localhost' }],
    [
      '{}',
      { http_proxy: 'http://small:1', HTTP_PROXY: 'http://large:1' },
      { http: 'http://small:1', https: 'http://small:1', except: '' },
    ],
    ['{ proxy: "http://own:8080" }', ENV, { http: 'http://own:8080', https: 'http://own:8080', except: '' }],
    ['{ proxy: none }', ENV, { http: '', https: '', except: '' }],
  ])('leads through the proxy of %s in %o', (http, env, proxies) => {
    expect(networkFor(http, env)?.proxies).toEqual(proxies);
  });

  it('has what the files hold', () => {
    expect(networkFor('{ ca_file: ca.pem, cert_file: cert.pem, key_file: key.pem }')).toMatchObject({
      ca: FILES['ca.pem'],
      cert: FILES['cert.pem'],
      key: FILES['key.pem'],
    });
    expect(networkFor('{ cert_file: cert.pem, key_file: locked.pem, key_passphrase: a long passphrase }')?.key).toBe(
      LOCKED,
    );
  });

  it('keeps passwords, keys and passphrases secret', () => {
    const http =
      '{ proxy: "http://jo:p%C3%A4ss-4711@own:8080", cert_file: cert.pem, key_file: locked.pem, key_passphrase: a long passphrase }';
    const { secrets } = load({ 'config.yaml': withHttp(http), ...FILES });
    const base64 = Buffer.from('jo:päss-4711').toString('base64');
    expect(secrets).toEqual(
      expect.arrayContaining(['p%C3%A4ss-4711', 'päss-4711', base64, LOCKED, 'a long passphrase']),
    );
  });

  it.each([
    ['{ proxy: ‸"ftp://jo:canary-4711@x" }', 'http.proxy', /address of a proxy.*\*\*\*/],
    ['{ ca_file: ‸absent.pem }', 'http.ca_file', /readable PEM file with a certificate \(ENOENT\)/],
    ['{ ca_file: ‸other.pem }', 'http.ca_file', /PEM file with a certificate, got something else/],
    ['{ cert_file: cert.pem, key_file: ‸ca.pem }', 'http.key_file', /with a private key, got something else/],
    [
      '{ cert_file: cert.pem, key_file: ‸locked.pem, key_passphrase: canary-4711 }',
      'http.key_file',
      /the passphrase of the key/,
    ],
    ['‸{ cert_file: cert.pem }', 'http', /cert_file and key_file together/],
  ])('is refused before any request: %s', (http, field, expected) => {
    const { text, place } = marked(withHttp(http));
    const { message } = faultsOf({ 'config.yaml': text, ...FILES });
    expect(message).not.toContain('canary');
    expect(lineAt(message, `config.yaml:${place}  sources.blog.${field}: expected`)).toMatch(expected);
  });
});
