/** Why a record is set aside while the rest of its page goes on; stored with its body in `_sync_rejects`. */
export type RejectReason =
  | 'id_missing'
  | 'id_null'
  | 'id_empty'
  | 'id_type'
  | 'id_too_long'
  | 'id_characters'
  | 'not_an_object'
  | 'too_deep'
  | 'too_wide'
  | 'too_large'
  | 'key_too_long'
  | 'contract';

export interface Rejection {
  reason: RejectReason;
  /** One sentence for the operator; names the field, never its value. */
  detail: string;
}
