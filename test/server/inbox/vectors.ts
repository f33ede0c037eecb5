import { z } from 'zod';
import type { WebhookSecret } from '../../../src/config/profile/signature-secret.ts';
import { signatureSchema, type SignatureScheme } from '../../../src/config/profile/signature-scheme.ts';
import type { Delivery, SignatureVerdict } from '../../../src/server/signature/delivery.ts';
import { createVerifier } from '../../../src/server/signature/create-verifier.ts';
import { webhookVectors } from '../../support/corpora.ts';

/** A delivery with all that is needed to verify it. */
export interface Example {
  name: string;
  preset: string;
  scheme: SignatureScheme;
  secrets: readonly WebhookSecret[];
  publicUrl: string | null;
  delivery: Delivery;
  /** Epoch milliseconds at which it was sent. */
  now: number;
}

const fileSchema = z.object({
  secret: z.string(),
  body: z.string(),
  timestampS: z.number(),
  publicUrl: z.string(),
  method: z.string(),
  published: z.array(
    z.object({
      scheme: z.string(),
      secret: z.string(),
      id: z.string().optional(),
      timestamp: z.number().optional(),
      body: z.string().optional(),
      url: z.string().optional(),
      signature: z.string(),
    }),
  ),
  generated: z.array(
    z.object({
      scheme: z.string(),
      headers: z.record(z.string(), z.string()),
      secret: z.string().optional(),
      publicKey: z.string().optional(),
      publicKeyHex: z.string().optional(),
      contentType: z.string().optional(),
      bodyOverride: z.string().optional(),
    }),
  ),
});

type VectorFile = z.output<typeof fileSchema>;

/** What the vectors call a scheme, where the preset has another name. */
const PRESET_OF: Readonly<Record<string, string>> = {
  'standard-webhooks-v1': 'standard-webhooks',
  'standard-webhooks-v1a': 'standard-webhooks',
  'ghost-current': 'ghost',
  'hubspot-v3': 'hubspot',
  'discord-ed25519': 'discord',
  'static-bearer': 'bearer',
  'static-basic': 'basic',
};

/** The bodies of the published examples stand in the vendors' pages, not in the file. */
const PUBLISHED_BODIES: Readonly<Record<string, string>> = {
  slack:
    'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V' +
    '&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=' +
    '&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN' +
    '&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
};

/** All vectors. */
export function examples(): Example[] {
  const file = fileSchema.parse(webhookVectors());
  return [...file.published.map(publishedExample), ...file.generated.map((vector) => generatedExample(vector, file))];
}

function publishedExample(vector: VectorFile['published'][number]): Example {
  const { scheme: name, secret, id = '', timestamp = 0, url = null, signature } = vector;
  const headers: Readonly<Record<string, Record<string, string>>> = {
    'standard-webhooks-v1': {
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signature,
    },
    github: { 'x-hub-signature-256': signature },
    slack: { 'x-slack-signature': signature, 'x-slack-request-timestamp': String(timestamp) },
  };
  const path = url === null ? '/' : new URL(url).pathname + new URL(url).search;
  const body = Buffer.from(vector.body ?? PUBLISHED_BODIES[name] ?? '');
  const delivery = { method: 'POST', path, headers: { ...headers[name] }, body };
  return example(`${name} (published)`, name, [{ value: secret }], url, delivery, timestamp * 1_000);
}

function generatedExample(vector: VectorFile['generated'][number], file: VectorFile): Example {
  const { scheme: name, contentType = 'application/json', bodyOverride } = vector;
  const value = vector.secret ?? vector.publicKey ?? vector.publicKeyHex ?? file.secret;
  const secret = name === 'static-basic' ? { value, id: 'cms' } : { value };
  const { pathname, search } = new URL(file.publicUrl);
  const delivery = {
    method: file.method,
    path: pathname + search,
    headers: { 'content-type': contentType, ...vector.headers },
    body: Buffer.from(bodyOverride ?? file.body),
  };
  return example(name, name, [secret], file.publicUrl, delivery, file.timestampS * 1_000);
}

function example(
  title: string,
  name: string,
  secrets: readonly WebhookSecret[],
  publicUrl: string | null,
  delivery: Delivery,
  now: number,
): Example {
  const preset = PRESET_OF[name] ?? name;
  return { name: title, preset, scheme: signatureSchema.parse(preset), secrets, publicUrl, delivery, now };
}

export function verdictOf({ scheme, secrets, publicUrl, delivery, now }: Example): SignatureVerdict {
  return createVerifier(scheme, secrets, publicUrl)(delivery, now);
}
