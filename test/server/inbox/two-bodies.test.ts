import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { DATABASES } from '../../support/databases.ts';
import { draining, eventFor } from '../../support/draining.ts';
import { journey } from '../../support/journey.ts';
import { changeRecord } from './storm.ts';

const CONTENT_ONLY = { sandbox: { generate: { content: 8 } }, source: { resources: ['content'] } };

describe.for(DATABASES)('two deliveries under one id on $name', (database) => {
  it('bring in the records that both of them name', async () => {
    const made = await journey({ ...CONTENT_ONLY, database });
    await made.run('backfill');
    const stage = await draining(made);
    const [first = '', other = ''] = [...made.sandbox.store.list('content')].map(({ id }) => id);
    for (const id of [first, other]) {
      changeRecord(made.sandbox, id);
      const body = Buffer.from(JSON.stringify(eventFor('content', id)));
      const received_at = timestampText(systemClock.now());
      await stage.inbox.write([
        { delivery: { delivery_id: 'msg_twice', is_id_sent: true, received_at, headers: '{}', body } },
      ]);
      stage.drain.wake();
      await stage.settled();
    }
    const rows = (await stage.rows()).toReversed();
    expect(rows.map(({ state, record_id, differs_from }) => [state, record_id, differs_from])).toEqual([
      ['done', first, null],
      ['done', other, 'msg_twice'],
    ]);
    const versions = await made.read((db) =>
      db.prepare('SELECT id FROM _sync_versions WHERE version = 2 ORDER BY id').pluck().all(),
    );
    expect(versions).toEqual([first, other].toSorted((one, next) => (one < next ? -1 : 1)));
  });
});
