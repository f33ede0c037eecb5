import { setImmediate } from 'node:timers/promises';
import type { SourceRecord } from '../../model/json.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { fieldMask } from '../../rows/mask-fields.ts';
import { unwrapped } from '../../rows/records/unwrap.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { lastBodiesAfter } from '../../database/state/versions.ts';
import type { LoadContext } from '../load-context.ts';

/** A record of which a body is stored. */
export interface StoredRecord extends SourceRecord {
  key: string;
}

const RECORDS_PER_PAGE = 500;

/**
 * All records of which a body is kept, deleted ones included, in the order of their ids and as the profile sees them now.
 * Throws the signal's reason between two pages.
 */
export async function* storedPages({
  warehouse,
  owned,
  profile,
  signal,
}: LoadContext): AsyncGenerator<readonly StoredRecord[]> {
  const see = seenNow(profile);
  for (let after = ''; ;) {
    const bodies = await lastBodiesAfter(warehouse.own, owned.resource, after, RECORDS_PER_PAGE);
    const last = bodies.at(-1);
    if (last === undefined) return;
    yield bodies.map(({ id, body }) => Object.assign(see(body), { key: id }));
    after = last.id;
    // Nothing here waits for anything else: signals get their turn.
    await setImmediate();
    signal.throwIfAborted();
  }
}

/**
 * Returns what reads a stored body as the profile has it now. Fields that it excludes are left out of bodies from before,
 * too; hashed ones were hashed when they were stored.
 */
export function seenNow({ unwrap, fields }: ResourceProfile): (body: string) => SourceRecord {
  const left = Object.entries(fields).filter(([, { exclude }]) => exclude);
  const hide = fieldMask(Object.fromEntries(left.map(([path]) => [path, { exclude: true, hash: false }])), '');
  return (body) => {
    const record = { value: unwrapped(parseJson(body), unwrap), bytes: Buffer.from(body) };
    return left.length === 0 ? record : hide(record);
  };
}
