import type { KnownRecords } from '../extract/requests/known-records.ts';
import type { JsonObject, SourceRecord } from '../model/json.ts';
import type { ResourceShape } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { KnownElement } from '../shape/json/parse-body.ts';
import type { ShapedBody, ShapedRecord, ShapingPlan } from '../warehouse/page-shaper.ts';
import { yearOf } from './grow-calendar.ts';
import type { LoadContext } from './load-context.ts';
import { plainFields, type PlainFields } from './plain-fields.ts';

/** Has the records of a first walk read, and made into rows, in a thread: this one is left with what the walk needs of them. */
export interface ShapeAhead extends KnownRecords {
  /**
   * What was made of the bodies of these records for tables of this shape; null if that is not known of all of them, or
   * they are not all records of these bodies. To be called once for a page.
   */
  take(records: readonly SourceRecord[], shape: ResourceShape): readonly ShapedBody[] | null;
}

interface Made {
  shape: ResourceShape;
  body: ShapedBody;
  /** Of its records, in their order. */
  sources: readonly Buffer[];
}

/** Null if the warehouse has no thread for it, or the walk needs more of the records than fields by their name. */
export function shapeAhead({ warehouse, owned, profile, clock }: LoadContext): ShapeAhead | null {
  const { shaper } = warehouse;
  const fields = plainFields(profile);
  // Where a page begins with the last record of the one before, that record is dropped.
  if (shaper === null || fields === null || profile.page.style === 'offset') return null;
  /** By the source of the first record. Bodies may lie in one memory, so that says nothing of which of them it is. */
  const made = new WeakMap<Buffer, Made>();
  const { id, depth, json, times, max_columns, contract, fields: rules, history } = profile;
  let latest: ShapingPlan | null = null;

  const planFor = (shape: ResourceShape): ShapingPlan => {
    const year = yearOf(clock.now());
    if (latest?.shape === shape && latest.year === year) return latest;
    const shapedBy = { id, depth, json, times, max_columns, contract, fields: rules };
    latest = { shape, profile: shapedBy, history, fields, year };
    return latest;
  };

  return {
    recognise: async (unread, requestedAt) => {
      const { shape } = owned;
      const isMade = shape?.tables.some(({ columns }) => columns.length > 0) === true;
      // In a range, rows of other processes may be there.
      if (shape === null || !isMade) return [];
      const { bytes, borders, isPlain } = unread;
      const asked = { bytes, borders, isPlain, requestedAt: timestampText(requestedAt) };
      const body = await shaper.shape(planFor(shape), asked);
      if (body === null) return [];
      const sources = unread.sources();
      if (sources[0] !== undefined) made.set(sources[0], { shape, body, sources });
      return sources.map((source, index) => knownElement(source, body.records[index], fields));
    },
    take: (records, shape) => {
      const bodies: ShapedBody[] = [];
      for (let at = 0; at < records.length;) {
        const from = at;
        const first = records[from]?.bytes;
        const known = first === undefined ? undefined : made.get(first);
        // A weak map keeps what it holds through young collections.
        if (first !== undefined) made.delete(first);
        if (known?.shape !== shape || !known.sources.every((source, nth) => source === records[from + nth]?.bytes))
          return null;
        bodies.push(known.body);
        at += known.sources.length;
      }
      return bodies.length === 0 ? null : bodies;
    },
  };
}

function knownElement(source: Buffer, record: ShapedRecord | undefined, fields: PlainFields): KnownElement {
  if (record === undefined) throw new Error('a body with more records than were shaped');
  const partial: JsonObject = { [fields.id]: record.id };
  if (fields.updated !== null) partial[fields.updated] = record.updated;
  return { source, hash: record.hash, partial };
}
