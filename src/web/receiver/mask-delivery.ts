import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { isJson, scrub, scrubOwn } from '../../observe/scrub.ts';
import type { WebhookSettings } from '../../settings/settings.ts';
import type { SignatureScheme } from '../../source/signature-scheme.ts';
import type { NewDelivery } from '../../warehouse/inbox.ts';

/** Replaces a secret if `***` would break the JSON: in a number, or a list of bytes. */
const DIGIT_STAND_IN = '1';

/**
 * Takes secrets out of a delivery that was believed, before it is stored: some schemes send theirs in the body, and a
 * service may send back whatever it knows. All else stays as it came: of
 * `secrets`, which may grow, short ones may be words of any event.
 */
export function deliveryMask(
  secrets: readonly string[],
  { value }: SignatureScheme,
  webhook: Pick<WebhookSettings, 'secrets'>,
): (delivery: NewDelivery) => NewDelivery {
  const inBody = value.from.from === 'json' ? webhook.secrets.map((secret) => secret.value) : [];
  const clean: Clean = (text, standIn) => scrub(scrubOwn(text, secrets, standIn), inBody, standIn);
  return ({ delivery_id, headers, body, ...delivery }) => ({
    ...delivery,
    delivery_id: maskedId(delivery_id, clean),
    headers: clean(headers),
    body: maskedBody(body, clean),
  });
}

type Clean = (text: string, standIn?: string) => string;

/** Two ids must stay two, whatever is taken out of them. */
function maskedId(id: string, clean: Clean): string {
  const masked = clean(id);
  return masked === id ? id : `${masked}#${createHash('sha256').update(id).digest('hex').slice(0, 16)}`;
}

function maskedBody(body: Uint8Array, clean: Clean): Uint8Array {
  const encoding = isUtf8(body) ? 'utf8' : 'latin1';
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(encoding);
  const masked = clean(text);
  if (masked === text) return body;
  const isBroken = isJson(text) && !isJson(masked);
  return Buffer.from(isBroken ? clean(text, DIGIT_STAND_IN) : masked, encoding);
}
