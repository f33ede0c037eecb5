import { expect, describe, it } from 'vitest';
import type { HeardNotice } from '../../../src/model/service-notice.ts';
import { keepNotices, readLifetime } from '../../../src/database/state/server-state.ts';
import { DATABASES, warehouseOn } from '../../support/databases.ts';

const DAY = 86_400_000;
const NOW = Date.parse('2026-11-20T12:00:00Z');
const END = '2027-01-01T00:00:00Z';

function notice(value: string, heard = NOW): HeardNotice {
  return { kind: 'sunset', value, path: '/v1/posts', firstHeard: heard, lastHeard: heard };
}

describe.for(DATABASES)('what a service said on $name', (database) => {
  it('is remembered for its version, with when it was first and last heard', async () => {
    const { warehouse } = await warehouseOn(database);
    const { own } = warehouse;
    await warehouse.apply(keepNotices(own, '/v1', [notice(END, NOW - 2 * DAY)]));
    await warehouse.apply(keepNotices(own, '/v1', [{ ...notice(END), path: '/v1/tags' }]));
    expect(await readLifetime(own, '/v1', NOW)).toEqual({
      deprecated: null,
      sunset_at: Date.parse(END),
      path: '/v1/posts',
      about: null,
      successor: null,
    });
    expect(await readLifetime(own, '/v2', NOW)).toBeNull();
    expect(await readLifetime(own, '/v1', NOW + 31 * DAY)).toBeNull();
  });
});
