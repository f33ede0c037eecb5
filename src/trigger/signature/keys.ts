import { ConfigError } from '../../model/errors.ts';
import { keyBytes, secretFault, type WebhookSecret } from '../../source/signature-secret.ts';
import type { SignatureMethod } from '../../source/signature-fields.ts';
import type { SignatureScheme } from '../../source/signature-scheme.ts';
import { PROVERS, type Prove } from './prove.ts';
import type { SentItem } from './read-signature.ts';

/** A secret made ready for the one method of a scheme that its form fits. */
export interface Key {
  readonly method: SignatureMethod;
  readonly bytes: Buffer;
  /** Whether a signature names this key, as far as it names one. */
  isMeant(item: SentItem): boolean;
  isActive(now: number): boolean;
  readonly prove: Prove;
}

/**
 * Id of a secret that only answers a challenge (`challenges.ts`): it stands in addresses and logs, so that it must not
 * be able to sign.
 */
export const VERIFY_TOKEN_ID = 'verify_token';

/** All keys of a source. Throws `ConfigError('webhook_secret')` for a secret that the scheme cannot use. */
export function keysOf(scheme: SignatureScheme, secrets: readonly WebhookSecret[]): Key[] {
  const signing = scheme.challenge === 'meta' ? secrets.filter(({ id }) => id !== VERIFY_TOKEN_ID) : secrets;
  return signing.flatMap((secret) => {
    const fault = secretFault(scheme, secret);
    if (fault !== null) throw new ConfigError('webhook_secret', `a webhook secret cannot be used: ${fault}`);
    return scheme.methods.flatMap((method) => {
      const bytes = keyBytes(method, secret);
      return bytes === null ? [] : [keyOf(scheme, method, secret, bytes)];
    });
  });
}

function keyOf(scheme: SignatureScheme, method: SignatureMethod, secret: WebhookSecret, bytes: Buffer): Key {
  const { until = Infinity, id } = secret;
  return {
    method,
    bytes,
    isMeant: ({ label, keyId }) => label === method.item && (keyId === null || keyId === id),
    isActive: (now) => now <= until,
    prove: PROVERS[method.type](bytes, method.algorithm, scheme.value.encoding),
  };
}
