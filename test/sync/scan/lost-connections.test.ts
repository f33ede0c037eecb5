import { describe, expect, it } from 'vitest';
import { POSTGRES, type TestDatabase } from '../../support/databases.ts';
import { flakyProxy } from '../../support/flaky-proxy.ts';
import { ownStage } from '../../support/own-stage.ts';
import { freshSeed, randomFrom } from '../../support/random.ts';
import type { OwnRecord } from '../../support/record-service.ts';

const seed = freshSeed();
const RECORDS = 400;
const SIZE = 20;
const EDITIONS = 8;
/** Of the messages that the server sends. */
const LOST_PART = 1 / 300;

function edition(of: number): OwnRecord[] {
  return Array.from({ length: RECORDS }, (_, at) => {
    const updated_at = new Date(Date.UTC(2024, 0, of) + at * 1000).toISOString();
    return { id: at + 1, updated_at, n: of, tags: [`${at}`, `${of}`] };
  });
}

describe.skipIf(POSTGRES.missing !== null)(`walks whose connections are lost (SEED=${seed})`, () => {
  it('F137 F138 write each page once, in their order', { timeout: 120_000 }, async () => {
    const random = randomFrom(seed);
    let isArmed = false;
    let cuts = 0;
    const database: TestDatabase = {
      ...POSTGRES,
      setting: async (folder) => {
        const setting = await POSTGRES.setting(folder);
        const proxy = await flakyProxy(setting, () => {
          const isCut = isArmed && random.chance(LOST_PART);
          cuts += isCut ? 1 : 0;
          return isCut;
        });
        return proxy.through(setting);
      },
    };
    const stage = await ownStage(database, edition(1), { content: { history: 'all', page: { size: SIZE } } });
    for (let of = 2; of <= EDITIONS; of += 1) {
      stage.service.put(...edition(of));
      isArmed = true;
      expect(await stage.walk()).toMatchObject({ status: 'ok', records: RECORDS, updated: RECORDS });
      isArmed = false;
      const wrong = `SELECT * FROM content WHERE n <> ${of} OR _version <> ${of}`;
      expect({ of, wrong: await stage.rows(wrong) }).toEqual({ of, wrong: [] });
    }
    const versions = await stage.rows(
      'SELECT count(*) AS n, count(DISTINCT id || version) AS parts FROM _sync_versions',
    );
    expect(versions).toEqual([{ n: RECORDS * EDITIONS, parts: RECORDS * EDITIONS }]);
    expect(await stage.rows('SELECT count(*) AS n FROM content_tags')).toEqual([{ n: 2 * RECORDS }]);
    expect(cuts).toBeGreaterThan(5);
  });
});
