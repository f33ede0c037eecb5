import { ConfigError } from '../../model/errors.ts';
import type { WebhookSecret } from '../../source/signature-secret.ts';
import { needsPublicUrl, signatureSchema, type SignatureScheme } from '../../source/signature-scheme.ts';
import type { Delivery, SignatureRefusal, SignatureVerdict } from './delivery.ts';
import { deliveryIdReader, signedIdReader } from './delivery-id.ts';
import { keysOf, type Key } from './keys.ts';
import { signatureReader, type SentItem } from './read-signature.ts';
import { schemeInFamily } from './scheme-in-family.ts';
import { checkTimestamp, timestampIn } from './timestamp.ts';
import { contentWriter } from './signed-content.ts';
import { signedPath, urlForms } from './url-forms.ts';

/** Decides whether a delivery is authentic; `now` in epoch milliseconds. Never throws, whatever is sent. */
export type Verify = (delivery: Delivery, now: number) => SignatureVerdict;

/**
 * Prepares keys and places once, for thousands of deliveries per second. `publicUrl` is the whole address at which the
 * sender sees this source's receiver; only schemes that sign it look at it.
 *
 * Every refusal costs a digest over the body with every active key, also if the header alone is enough: the time of an
 * answer is to show as little as can be. Throws `ConfigError` for secrets that the scheme cannot use, or if the public
 * URL is missing.
 */
export function createVerifier(
  scheme: SignatureScheme,
  secrets: readonly WebhookSecret[],
  publicUrl: string | null,
): Verify {
  if (publicUrl === null && needsPublicUrl(scheme)) {
    throw new ConfigError('webhook_public_url', 'this signature scheme signs the address of the receiver', {
      hint: 'Set webhook.public_url to the address that the service sends its webhooks to.',
    });
  }
  const keys = keysOf(scheme, secrets);
  const plans = scheme.families.map((family) => planOf(schemeInFamily(scheme, family), publicUrl));
  return (delivery, now) => {
    const active = keys.filter((key) => key.isActive(now));
    const plan = plans.find((one) => one.isMeant(delivery)) ?? plans[0];
    if (plan === undefined || active.length === 0) return refused('no_secret');
    const verdict = plan.verify(active, delivery, now);
    // A refusal before the digest still takes as long as a digest.
    if (typeof verdict === 'string' && !AFTER_DIGEST.has(verdict))
      for (const key of active) key.prove([delivery.body], []);
    return typeof verdict === 'string' ? refused(verdict) : verdict;
  };
}

const STANDARD = signatureSchema.parse('standard-webhooks');
const NOBODYS_SECRET = { value: `whsec_${Buffer.alloc(32).toString('base64')}` };

const AFTER_DIGEST: ReadonlySet<SignatureRefusal> = new Set(['bad_signature', 'bad_timestamp', 'too_old', 'too_new']);

/** One family's names of headers. */
interface Plan {
  isMeant(delivery: Delivery): boolean;
  verify(keys: readonly Key[], delivery: Delivery, now: number): SignatureVerdict | SignatureRefusal;
}

function planOf(scheme: SignatureScheme, publicUrl: string | null): Plan {
  const { value, timestamp } = scheme;
  const readSignature = signatureReader(scheme);
  const readSignedId = signedIdReader(scheme);
  const readDeliveryId = deliveryIdReader(scheme);
  const write = contentWriter(scheme);
  const urlsOf = urlForms(scheme.url_form, publicUrl);
  const pathOf = signedPath(publicUrl);
  const host = publicUrl === null ? '' : new URL(publicUrl).host;
  return {
    isMeant: ({ headers }) => value.from.from !== 'header' || headers[value.from.name] !== undefined,
    verify: (keys, delivery, now) => {
      const sent = readSignature(delivery);
      if (typeof sent === 'string') return sent;
      const ts = timestampIn(delivery, scheme, sent.parts);
      if (ts === null) return 'no_timestamp';
      const id = readSignedId(delivery, sent.parts);
      if (id === null) return 'no_id';
      const facts = { scheme, delivery, parts: sent.parts, id, ts, host, path: pathOf(delivery.path) };
      const proved = provedBy(keys, sent.items, urlsOf(delivery.path), (url, secret) =>
        write({ ...facts, url, secret }),
      );
      if (proved !== true) return proved;
      const sentAt = timestamp === null ? null : checkTimestamp(ts, timestamp, now);
      if (typeof sentAt === 'string') return sentAt;
      return { ok: true, ...readDeliveryId(delivery, sent.parts), sentAt };
    },
  };
}

function provedBy(
  keys: readonly Key[],
  items: readonly SentItem[],
  urls: readonly string[],
  contentOf: (url: string, secret: Buffer) => Buffer[] | null,
): SignatureRefusal | true {
  let proofs = 0;
  for (const key of keys) {
    const texts = items.filter((item) => key.isMeant(item)).map(({ text }) => text);
    for (const url of urls) {
      const content = contentOf(url, key.bytes);
      if (content === null) return 'bad_content';
      proofs += Number(key.prove(content, texts));
    }
  }
  return proofs > 0 ? true : 'bad_signature';
}

function refused(reason: SignatureRefusal): SignatureVerdict {
  return { ok: false, reason };
}

/**
 * A verifier for sources that do not exist: it takes as long as the one it is given (of a source that does) and believes
 * nothing.
 */
export function verifierForNobody(like: Verify = createVerifier(STANDARD, [NOBODYS_SECRET], null)): Verify {
  return (delivery, now) => {
    like(delivery, now);
    return refused('no_secret');
  };
}
