import type { TokenStore } from '../coordination.ts';
import type { Warehouse } from '../warehouse.ts';
import { isOtherRunning, placeOfProcess } from './leases.ts';

type TokenPlace = Pick<Warehouse, 'own' | 'now' | 'persist' | 'isOnNetwork'>;

/**
 * Tokens of a source, in its own warehouse: they outlive the process, and are on disk before `swapToken` resolves. One
 * that asks and dies is known by its process where that can be looked up; elsewhere its claim runs out.
 */
export function storedTokens(warehouse: TokenPlace): TokenStore {
  const { own } = warehouse;
  const place = placeOfProcess(warehouse.isOnNetwork);
  const askerOf = (owner: string): string => JSON.stringify([place, process.pid, owner]);

  async function claim(name: string, version: number, asker: string, forMs: number): Promise<void> {
    const now = Math.floor(await warehouse.now());
    const fresh = { name, version: 0, sealed: null, expires_at: null, asker: null, asked_until: null };
    await own
      .insertInto('_sync_tokens')
      .values(fresh)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    await own
      .updateTable('_sync_tokens')
      .set({ asker, asked_until: now + forMs })
      .where('name', '=', name)
      .where('version', '=', version)
      .where((is) => is.or([is('asker', 'is', null), is('asker', '=', asker), is('asked_until', '<=', now)]))
      .execute();
  }

  async function free(name: string, asker: string): Promise<void> {
    const nobody = { asker: null, asked_until: null };
    await own.updateTable('_sync_tokens').set(nobody).where('name', '=', name).where('asker', '=', asker).execute();
  }

  return {
    async claimToken(name, version, { owner, forMs }) {
      living.add(owner);
      const asker = askerOf(owner);
      await claim(name, version, asker, forMs);
      const rows = own.selectFrom('_sync_tokens').selectAll().where('name', '=', name);
      let row = await rows.executeTakeFirstOrThrow();
      if (row.version === version && row.asker !== null && isDead(row.asker, place)) {
        await free(name, row.asker);
        await claim(name, version, asker, forMs);
        row = await rows.executeTakeFirstOrThrow();
      }
      const expiresIn = row.expires_at === null ? 0 : row.expires_at - (await warehouse.now());
      const isMine = row.version === version && row.asker === asker;
      return { sealed: row.sealed, version: row.version, expiresIn, isMine };
    },
    async swapToken(name, version, { sealed, expiresIn }) {
      const expires_at = Math.floor((await warehouse.now()) + expiresIn);
      const swapped = await own
        .updateTable('_sync_tokens')
        .set({ version: version + 1, sealed, expires_at, asker: null, asked_until: null })
        .where('name', '=', name)
        .where('version', '=', version)
        .executeTakeFirst();
      await warehouse.persist();
      return swapped.numUpdatedRows > 0n;
    },
    freeToken: (name, owner) => free(name, askerOf(owner)),
  };
}

/** Those of this process: after a restart in a container another process may have its pid. */
const living = new Set<string>();

function isDead(asker: string, here: string): boolean {
  const [place, pid, owner] = readAsker(asker);
  if (place !== here || pid === undefined) return false;
  return pid === process.pid ? !living.has(owner ?? '') : !isOtherRunning(pid);
}

function readAsker(asker: string): [place?: string, pid?: number, owner?: string] {
  const read: unknown = JSON.parse(asker);
  const [place, pid, owner]: unknown[] = Array.isArray(read) ? read : [];
  const isWhole = typeof place === 'string' && typeof pid === 'number' && typeof owner === 'string';
  return isWhole ? [place, pid, owner] : [];
}
