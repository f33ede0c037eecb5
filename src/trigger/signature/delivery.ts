/** A webhook request as it came, before anything in it is believed. */
export interface Delivery {
  method: string;
  /** The target as it was sent: path and query. */
  path: string;
  /** By lower-case name; a list if one was sent several times. One character is one byte, as Node reads them. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  body: Buffer;
}

/**
 * Why a delivery is not believed: for our own log and metrics, never for the sender. What is sent several times
 * counts as not there.
 */
export type SignatureRefusal =
  | 'no_secret'
  | 'no_signature'
  | 'bad_signature_header'
  | 'too_many_signatures'
  | 'no_timestamp'
  | 'no_id'
  | 'bad_content'
  | 'bad_signature'
  | 'bad_timestamp'
  | 'too_old'
  | 'too_new';

export type SignatureVerdict =
  | {
      ok: true;
      /** Distinguishes this delivery from others; `sha256:<hex>` of the body if the sender sends nothing usable. */
      deliveryId: string;
      idFrom: 'sent' | 'body';
      /** Epoch milliseconds; null if the scheme signs no time. */
      sentAt: number | null;
    }
  | { ok: false; reason: SignatureRefusal };
