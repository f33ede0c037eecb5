import type { DeliveryField, DeliveryFieldKind } from '../../source/delivery-field.ts';
import type { SignatureScheme } from '../../source/signature-scheme.ts';

/** The scheme with every `{family}` in its header names replaced. */
export function schemeInFamily(scheme: SignatureScheme, family: string): SignatureScheme {
  const named = <K extends DeliveryFieldKind>(place: DeliveryField<K>): DeliveryField<K> => ({
    ...place,
    name: place.name.replaceAll('{family}', family.toLowerCase()),
  });
  const { value, timestamp, signed_headers, body_hash } = scheme;
  return {
    ...scheme,
    families: [family],
    value: { ...value, from: named(value.from) },
    timestamp: timestamp && { ...timestamp, from: named(timestamp.from) },
    id: named(scheme.id),
    signed_headers: signed_headers && { ...signed_headers, from: named(signed_headers.from) },
    body_hash: body_hash && named(body_hash),
  };
}
