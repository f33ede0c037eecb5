import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import { signatureSchema, type SignatureScheme } from '../../../src/config/profile/signature-scheme.ts';
import { readDelivery } from '../../../src/server/inbox/read-delivery.ts';
import { createVerifier } from '../../../src/server/signature/create-verifier.ts';
import { capturedWebhooks, type CapturedWebhook } from '../../support/corpora.ts';

const ITEM = { path: '/x', page: { style: 'page', page_param: 'page' } };

type Service = Parameters<typeof capturedWebhooks>[0];

/** The parts of the services' events that hold an id. */
interface Told {
  post?: { current: { id: string } };
  tag?: { current: { id: string } };
  entry?: { documentId: string };
  media?: { id: number };
  key?: string;
  keys?: string[];
}

/** How the events of each service are read, as a profile would say it. */
const WEBHOOKS: Readonly<Record<Service, Record<string, unknown>>> = {
  ghost: {
    kind: 'json:event',
    rules: [
      {
        kind: 'post.*',
        resource: 'posts',
        id: ['json:post.current.id', 'json:post.previous.id'],
        updated: 'json:post.current.updated_at',
      },
      { kind: 'tag.*', resource: 'tags', id: ['json:tag.current.id', 'json:tag.previous.id'] },
    ],
  },
  strapi: {
    kind: 'json:event',
    resource: 'json:model',
    resource_names: { article: 'posts', author: 'authors' },
    id: 'json:entry.documentId',
    updated: null,
    deleted: ['entry.delete', 'entry.unpublish'],
    rules: [
      { kind: 'media.delete', resource: 'files', id: 'json:media.id', deleted: true },
      { kind: 'media.*', resource: 'files', id: 'json:media.id' },
    ],
  },
  directus: {
    kind: 'json:event',
    resource: 'json:collection',
    resource_names: { articles: 'posts', directus_files: 'files' },
    id: ['json:key', 'json:keys'],
    deleted: ['*.delete'],
  },
};

function read(service: Service, body: string): string[] {
  const profile = profileSchema.parse({
    webhooks: WEBHOOKS[service],
    resources: { posts: ITEM, tags: ITEM, authors: ITEM, files: ITEM },
  });
  const content = readDelivery({ headers: '{}', body: Buffer.from(body) }, profile);
  if (content.is !== 'read') return [content.reason];
  return content.targets.map(({ kind, resource, key, isDelete }) =>
    [kind, resource, key, ...(isDelete ? ['gone'] : [])].join(' '),
  );
}

describe('real deliveries', () => {
  it.each<[Service, string, string, string]>([
    ['ghost', 'tag.added', 'tags', ''],
    ['ghost', 'post.added', 'posts', ''],
    ['ghost', 'post.published', 'posts', ''],
    ['strapi', 'entry.create', 'authors', ''],
    ['strapi', 'entry.publish', 'posts', ''],
    ['strapi', 'entry.update', 'posts', ''],
    ['strapi', 'entry.delete', 'posts', ' gone'],
    ['strapi', 'media.create', 'files', ''],
    ['strapi', 'media.delete', 'files', ' gone'],
    ['directus', 'files.upload', 'files', ''],
    ['directus', 'articles.items.create', 'posts', ''],
    ['directus', 'articles.items.update', 'posts', ''],
    ['directus', 'articles.items.delete', 'posts', ' gone'],
    ['directus', 'files.delete', 'files', ' gone'],
  ])('of %s: %s names one record of %s', (service, kind, resource, gone) => {
    const sent = capturedWebhooks(service).find(({ body }) => body.includes(`"event":"${kind}"`));
    if (sent === undefined) return;
    const told: Told = JSON.parse(sent.body);
    expect(read(service, sent.body)).toEqual([`${kind} ${resource} ${wantedId(told)}${gone}`]);
  });

  it('of Ghost: a delete holds the record only as it was before', () => {
    const body = { event: 'post.deleted', post: { current: {}, previous: { id: '6b0060b2f11926059acce455' } } };
    expect(read('ghost', JSON.stringify(body))).toEqual(['post.deleted posts 6b0060b2f11926059acce455 gone']);
  });

  it('of Directus: one delete of many names each', () => {
    const body = { event: 'articles.items.delete', payload: ['a', 'b'], keys: ['a', 'b'], collection: 'articles' };
    expect(read('directus', JSON.stringify(body))).toEqual([
      'articles.items.delete posts a gone',
      'articles.items.delete posts b gone',
    ]);
  });

  it('of Strapi: both rows of one deleted entry name the same record', () => {
    const entry = { documentId: 'vbfv2u0qz0tefg5ix9vdy7ri' };
    const bodies = [73, 74].map((id) => ({ event: 'entry.delete', model: 'article', entry: { id, ...entry } }));
    const [first, second] = bodies.map((body) => read('strapi', JSON.stringify(body)));
    expect(first).toEqual(['entry.delete posts vbfv2u0qz0tefg5ix9vdy7ri gone']);
    expect(second).toEqual(first);
  });
});

const inHeader = (name: string): object => ({ base: 'static-header', value: { from: `header:${name}` } });

describe('what proves real deliveries', () => {
  const PROOFS: readonly [Service, unknown, string][] = [
    ['ghost', 'ghost', 'ghost-hook-secret-1'],
    [
      'ghost',
      {
        type: 'hmac',
        algorithm: 'sha256',
        item: 'sha256',
        value: { from: 'header:X-Ghost-Signature', parse: 'kv', separator: ', ', encoding: 'hex' },
        timestamp: { from: 'part:t', unit: 'ms' },
        signed: '{body}{ts}',
      },
      'ghost-hook-secret-1',
    ],
    ['strapi', inHeader('x-hook-token'), 'strapi-hook-token-1'],
    ['directus', inHeader('x-webhook-token'), 'directus-hook-token-1'],
  ];

  it.each(PROOFS)('%s by %j', (service, given, secret) => {
    const scheme = signatureSchema.parse(given);
    for (const sent of capturedWebhooks(service)) {
      expect(Buffer.byteLength(sent.body)).toBe(sent.bytes);
      expect(verdictOf(scheme, secret, sent)).toBe('ok');
      expect(verdictOf(scheme, `${secret}x`, sent)).toBe('bad_signature');
    }
  });

  it('Ghost signs body and time', () => {
    for (const sent of capturedWebhooks('ghost')) {
      const verdict = verdictOf.bind(null, signatureSchema.parse('ghost'), 'ghost-hook-secret-1');
      expect(verdict({ ...sent, body: `${sent.body} ` })).toBe('bad_signature');
      expect(verdict(sent, 600_000)).toBe('too_old');
    }
  });
});

function wantedId({ post, tag, entry, media, key, keys }: Told): string | number | undefined {
  return (post ?? tag)?.current.id ?? entry?.documentId ?? media?.id ?? key ?? keys?.[0];
}

function verdictOf(scheme: SignatureScheme, secret: string, sent: CapturedWebhook, later = 0): string {
  const verify = createVerifier(scheme, [{ value: secret }], null);
  const delivery = { method: sent.method, path: sent.url, headers: sent.headers, body: Buffer.from(sent.body) };
  const verdict = verify(delivery, Date.parse(sent.at) + later);
  return verdict.ok ? 'ok' : verdict.reason;
}
