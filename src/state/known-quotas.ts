import type { Kysely } from 'kysely';
import type { PeriodFigures } from '../queue/budget/period-quotas.ts';
import { restartQuotas, sharedQuotas } from '../queue/budget/stored-quotas.ts';
import type { SourceSettings } from '../settings/settings.ts';
import type { Coordination } from '../warehouse/coordination.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';
import { budgetName } from '../source/account-name.ts';
import { limitsOf, readLimit } from './open-governor.ts';

/** The quotas by day and month of a source's service, as they were last stored; `coordination` is null where one process has them for itself. */
export async function knownQuotas(
  source: Pick<SourceSettings, 'auth' | 'base_url' | 'profile' | 'rate'>,
  { own, coordination }: { own: Kysely<OwnTables>; coordination: Coordination | null },
  now: number,
): Promise<PeriodFigures[]> {
  const name = budgetName(new URL(source.base_url).origin, source.auth);
  const options = { ...limitsOf(source), random: () => 0 };
  if (coordination === null) return restartQuotas(await readLimit(own, name), options, now);
  const row = await coordination.readBudget(name);
  return sharedQuotas(row.state, options, row.now);
}
