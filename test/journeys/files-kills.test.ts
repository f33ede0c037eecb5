import '../support/fixed-seed.ts';
import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { filesKillLoop } from './files-kill-loop.ts';

const seed = Number(process.env['SEED']);

describe.each(eitherDatabase(import.meta.filename))(`files under kill -9 (SEED=${seed}), on $name`, (database) => {
  it('are neither lost nor doubled, and prune finds what is left over', async () => {
    const { midFiles } = await filesKillLoop({ database, store: 'disk', kills: longOrShort(8, 3), seed });
    expect(midFiles).toBeGreaterThan(longOrShort(2, 0));
  });
});
