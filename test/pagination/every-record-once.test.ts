import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SyncError } from '../../src/model/errors.ts';
import { pageProfile, serve, STYLES } from './five-styles.ts';
import { startListing } from './listing-server.ts';
import type { Responder } from './listing-server.ts';
import { realClient } from './real-client.ts';
import { collect, idsOf, walkOver } from './walking.ts';

const SEED = Number(process.env['SEED'] ?? 20_261_120);
const RUNS = Number(process.env['RUNS'] ?? 15);

const listing = fc.record({
  ids: fc.uniqueArray(fc.oneof(fc.integer(), fc.string({ unit: 'grapheme' })), { maxLength: 60 }),
  size: fc.integer({ min: 1, max: 20 }),
  clamp: fc.option(fc.integer({ min: 1, max: 20 }), { nil: 100 }),
  total: fc.boolean(),
  runAhead: fc.integer({ min: 0, max: 5 }),
  resumeAfter: fc.option(fc.nat(10), { nil: null }),
});

/** One server and one connection for all runs of a property. */
let respond: Responder = () => ({});

describe.each(STYLES)(`%s (seed ${SEED})`, (style) => {
  it('any list, page size and clamping, cut off and resumed anywhere: each record once and in order', async () => {
    const server = await startListing((url, count) => respond(url, count));
    const connected = realClient(server.url, pageProfile(style, 1));
    const property = fc.asyncProperty(listing, async ({ ids, size, clamp, total, runAhead, resumeAfter }) => {
      respond = serve(
        style,
        ids.map((id) => ({ id })),
        { clamp, total },
      );
      const client = connected;
      const profile = pageProfile(style, size, total ? { total: 'total' } : {});
      const whole = await collect(walkOver(server, profile, { client, runAhead }));
      // Pages of one record, the last without a link: nothing shows the end, and no smaller page can be tried.
      const isTried = size > 1 && (clamp > 1 || ids.length < 2);
      const isUnprovable = style === 'link' && !total && ids.length > 0 && !isTried;
      const code = whole.error instanceof SyncError ? whole.error.code : whole.error;
      expect(code).toBe(isUnprovable ? 'pagination_invalid' : null);
      if (isUnprovable) return;
      expect(idsOf(whole.pages)).toEqual(ids);
      const cut = resumeAfter === null ? undefined : whole.pages[resumeAfter];
      if (cut === undefined || cut.next === null) return;
      const rest = await collect(
        walkOver(server, profile, { client, runAhead, from: cut.next, pagesBefore: cut.number }),
      );
      expect(rest.error).toBeNull();
      expect(idsOf([...whole.pages.slice(0, cut.number), ...rest.pages])).toEqual(ids);
    });
    await fc.assert(property, { seed: SEED, numRuns: RUNS });
  });
});
