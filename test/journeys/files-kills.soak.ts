import { describe, expect, it } from 'vitest';
import { POSTGRES, SQLITE } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { filesKillLoop } from './files-kill-loop.ts';

const seed = freshSeed();

describe(`files under kill -9, for long (SEED=${seed})`, () => {
  it('are neither lost nor doubled in a folder, in 200 kills', async () => {
    const { midFiles } = await filesKillLoop({ database: SQLITE, store: 'disk', kills: 200, seed });
    expect(midFiles).toBeGreaterThan(50);
  });

  it('are neither lost nor doubled in a bucket, in 200 kills', async () => {
    const { midFiles } = await filesKillLoop({ database: SQLITE, store: 'bucket', kills: 200, seed });
    expect(midFiles).toBeGreaterThan(50);
  });

  it.skipIf(POSTGRES.missing !== null)('are neither lost nor doubled on Postgres, in 60 kills', async () => {
    const { midFiles } = await filesKillLoop({ database: POSTGRES, store: 'disk', kills: 60, seed });
    expect(midFiles).toBeGreaterThan(15);
  });
});
