import { z } from 'zod';
import { isTimeZone, LOCAL } from '../model/time-zone.ts';
import { CONTRACTS, HISTORY_POLICIES } from '../model/vocabulary.ts';
import { columnPath } from './body-path.ts';

/** An IANA name or a fixed offset. */
const zoneName = z
  .string()
  .refine(
    (name) => name === LOCAL || isTimeZone(name),
    'expected a time zone such as Europe/Zurich or +02:00, or local',
  );

const INDEXED = /^[\p{L}\p{M}\p{N}_]+(\.[\p{L}\p{M}\p{N}_]+)?$/u;

/** What becomes of the fields of a record: the fields of a resource. */
export const tableFields = {
  history: z
    .enum(HISTORY_POLICIES)
    .default('latest')
    .meta({ examples: ['all'] }),
  contract: z
    .enum(CONTRACTS)
    .default('evolve')
    .meta({ examples: ['freeze'] }),
  /** Fields kept as one JSON column instead of being flattened or made a child table. */
  json: z
    .array(columnPath)
    .default([])
    .meta({ examples: [['_links', 'seo.meta']] }),
  times: z
    .record(columnPath, zoneName)
    .default({})
    .meta({
      description:
        'Zone of the times that name none, by field: an IANA name or an offset; without it they are read as UTC. A time that has one keeps it. `local` is for times of a zone that nobody tells: they stay texts, as the service writes them.',
      examples: [{ published: 'Europe/Zurich', created: '+02:00' }, { date: 'local' }],
    }),
  /** Levels of objects and arrays that become columns and child tables; deeper ones become a JSON column. */
  depth: z
    .int()
    .min(1)
    .max(10)
    .default(4)
    .meta({ examples: [2] }),
  /** Not part of what the rows are: may be changed at any time. */
  indexes: z
    .union([z.enum(['auto', 'none']), z.array(z.string().regex(INDEXED, 'expected a column, or table.column')).max(20)])
    .default('auto')
    .meta({
      description:
        'What rows can be found by quickly, besides their key: `auto` for the fields of `updated`, the field of `windows`, the time of publishing and what `relations` names, `none`, or columns by their names in the warehouse. They are built when a walk has ended.',
      examples: ['none', ['published_at', 'content_tags.value']],
    }),
  /** Columns made from source fields per table; further new fields are kept together in `_overflow`. */
  max_columns: z
    .int()
    .min(10)
    .max(900)
    .default(200)
    .meta({ examples: [400] }),
};
