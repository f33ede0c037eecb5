import type { Stage } from './stage.ts';

/** The body of a listing of one page, the records as they are. */
function pageOf(records: readonly (string | Uint8Array)[]): Buffer {
  const parts = records.flatMap((record, index) => [Buffer.from(index === 0 ? '' : ','), Buffer.from(record)]);
  return Buffer.concat([Buffer.from('{"data":['), ...parts, Buffer.from('],"next_cursor":null}')]);
}

/** From now on the service lists these records as all of its content. */
export function list(stage: Stage, records: readonly (string | Uint8Array)[]): void {
  stage.sandbox.faults.clear();
  stage.sandbox.faults.add({ fault: 'body', resource: 'content', text: pageOf(records) });
}

/** A record of content that was changed at that second. */
export function record(id: string, fields: Record<string, unknown>, second = 0): string {
  const time = new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
  return JSON.stringify({ id, updated_at: time, ...fields });
}

/** The bodies that the warehouse keeps of content as it stands, by id. */
export async function bodiesIn(stage: Stage): Promise<Map<string, string>> {
  const rows = await stage.query<{ id: string; body: string }>(
    `SELECT id, body FROM _sync_versions WHERE resource = 'content' AND valid_to IS NULL`,
  );
  return new Map(rows.map(({ id, body }) => [id, body]));
}

export interface StoredReject {
  reason: string;
  record_id: string | null;
  body: string;
  resolved_at: string | null;
}

export function rejectsIn(stage: Stage): Promise<StoredReject[]> {
  return stage.query('SELECT reason, record_id, body, resolved_at FROM _sync_rejects ORDER BY rowid');
}

/** Source paths of the columns of a table and the columns' names, as the catalogue remembers them. */
export async function columnsOf(stage: Stage, table = 'content'): Promise<Map<string, string>> {
  const rows = await stage.query<{ source_path: string; column_name: string }>(
    `SELECT source_path, column_name FROM _sync_columns WHERE table_name = ? AND role = 'source'`,
    table,
  );
  return new Map(rows.map((row) => [row.source_path, row.column_name]));
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** The keys of a path, as the catalogue writes it. */
export function keysIn(sourcePath: string): string[] {
  const keys: string[] = JSON.parse(sourcePath);
  return keys;
}
