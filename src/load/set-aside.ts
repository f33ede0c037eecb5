import { textHash } from '../shape/records/fingerprint.ts';
import type { Reject } from '../state/rejects.ts';
import type { KeyedRecord, SetAside } from './key-records.ts';

/** A record that the contract or a limit sets aside. */
export function rejected(record: KeyedRecord | undefined, reason: string, detail: string): SetAside {
  return { key: record?.key ?? null, reason, detail, bytes: record?.bytes ?? Buffer.alloc(0) };
}

/** As they are remembered. */
export function rejectsOf(resource: string, runId: string, setAside: readonly SetAside[]): Reject[] {
  return setAside.map(({ key, reason, detail, bytes }) => ({
    resource,
    hash: textHash(bytes),
    reason,
    record_id: key,
    detail,
    body: bytes.toString(),
    run_id: runId,
  }));
}
