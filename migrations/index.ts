import type { Kysely } from 'kysely';
import * as ownTables from './001-own-tables.ts';
import * as deletes from './002-deletes.ts';
import * as freshness from './003-freshness.ts';
import * as proofs from './004-proofs.ts';
import * as olderStates from './005-older-states.ts';
import * as leaseFences from './007-lease-fences.ts';
import * as statedDeletes from './008-stated-deletes.ts';
import * as serviceNotices from './009-service-notices.ts';
import * as tokens from './010-tokens.ts';
import * as views from './011-views.ts';
import * as timesDeletesCalendar from './012-times-deletes-calendar.ts';
import * as examples from './013-examples.ts';
import * as history from './014-history.ts';
import * as growth from './015-growth.ts';
import * as sourceTexts from './016-source-texts.ts';
import * as declaredTypes from './017-declared-types.ts';
import * as runHistory from './018-run-history.ts';
import * as verifications from './019-verifications.ts';
import * as forgotten from './020-forgotten.ts';
import * as pauses from './021-pauses.ts';
import * as alerts from './022-alerts.ts';
import * as ranges from './023-ranges.ts';
import * as calendarCovers from './024-calendar-covers.ts';
import * as files from './025-files.ts';
import * as windows from './026-windows.ts';
import * as fileOwner from './027-file-owner.ts';
import * as noRanges from './028-no-ranges.ts';
import * as checks from './029-checks.ts';
import * as microseconds from './030-microseconds.ts';
import * as goneColumns from './031-gone-columns.ts';
import * as wideningViews from './032-widening-views.ts';
import * as readableViews from './033-readable-views.ts';
import * as noForeignKeys from './034-no-foreign-keys.ts';
import * as deliveries from './inbox/001-deliveries.ts';
import * as roomAndDifferences from './inbox/002-room-and-differences.ts';
import * as zonedTimes from './inbox/003-zoned-times.ts';
import type { MigrationDialect } from './dialect.ts';

/** The migrations of one set of internal tables, by name; they run in the order of their names. */
export type Migrations = Readonly<
  Record<string, { up: (db: Kysely<unknown>, dialect: MigrationDialect) => Promise<void> }>
>;

/** Static imports, so that type stripping, the build and a bundle find all of them. */
export const WAREHOUSE_MIGRATIONS: Migrations = {
  '001-own-tables': ownTables,
  '002-deletes': deletes,
  '003-freshness': freshness,
  '004-proofs': proofs,
  '005-older-states': olderStates,
  '007-lease-fences': leaseFences,
  '008-stated-deletes': statedDeletes,
  '009-service-notices': serviceNotices,
  '010-tokens': tokens,
  '011-views': views,
  '012-times-deletes-calendar': timesDeletesCalendar,
  '013-examples': examples,
  '014-history': history,
  '015-growth': growth,
  '016-source-texts': sourceTexts,
  '017-declared-types': declaredTypes,
  '018-run-history': runHistory,
  '019-verifications': verifications,
  '020-forgotten': forgotten,
  '021-pauses': pauses,
  '022-alerts': alerts,
  '023-ranges': ranges,
  '024-calendar-covers': calendarCovers,
  '025-files': files,
  '026-windows': windows,
  '027-file-owner': fileOwner,
  '028-no-ranges': noRanges,
  '029-checks': checks,
  '030-microseconds': microseconds,
  '031-gone-columns': goneColumns,
  '032-widening-views': wideningViews,
  '033-readable-views': readableViews,
  '034-no-foreign-keys': noForeignKeys,
};
export const INBOX_MIGRATIONS: Migrations = {
  '001-deliveries': deliveries,
  '002-room-and-differences': roomAndDifferences,
  '003-zoned-times': zonedTimes,
};
