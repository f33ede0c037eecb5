/** A record that was erased on a person's word. Without `record_id` nothing here leads back to it. */
export interface ForgottenRow {
  resource: string;
  /** HMAC-SHA256 of source, resource and id under `privacy_key`, in hex digits. */
  fingerprint: string;
  /** Of that key and the source's name: under another one the fingerprints mean nothing. */
  key_mark: string;
  /** Of content-sync, as it was erased. */
  version: string;
  asked_at: string;
  /** The id, until everything of the record is erased; null from then on. */
  record_id: string | null;
  /** When rows, versions and all else of the warehouse were gone. */
  erased_at: string | null;
  /** When log and free pages no longer held any of it either. */
  cleaned_at: string | null;
  /** JSON: how much was erased, by what it was. */
  counts: string | null;
}

/** Something that a channel of `alerts` was told. */
export interface AlertRow {
  channel: string;
  alert: string;
  what: string;
  since: string;
  told_at: string;
  gone_at: string | null;
  over_at: string | null;
  returns: number;
}
