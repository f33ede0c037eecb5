import type { TokenStore } from '../coordination.ts';
import type { Warehouse } from '../warehouse.ts';

/**
 * Tokens of a source in its own warehouse: they outlive the process, and are durable before `swapToken` resolves. The
 * reservation of a process that dies expires.
 */
export function storedTokens(warehouse: Warehouse): TokenStore {
  const { own } = warehouse;
  return {
    async claimToken(name, version, { owner, forMs }) {
      const now = Math.floor(await warehouse.now());
      const none = { name, version: 0, sealed: null, expires_at: null, asker: null, asked_until: null };
      await own
        .insertInto('_sync_tokens')
        .values(none)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
      await own
        .updateTable('_sync_tokens')
        .set({ asker: owner, asked_until: now + forMs })
        .where('name', '=', name)
        .where('version', '=', version)
        .where((is) => is.or([is('asker', 'is', null), is('asker', '=', owner), is('asked_until', '<=', now)]))
        .execute();
      const row = await own.selectFrom('_sync_tokens').selectAll().where('name', '=', name).executeTakeFirstOrThrow();
      const expiresIn = row.expires_at === null ? 0 : row.expires_at - (await warehouse.now());
      const isMine = row.version === version && row.asker === owner;
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
    async freeToken(name, owner) {
      const free = own.updateTable('_sync_tokens').set({ asker: null, asked_until: null });
      await free.where('name', '=', name).where('asker', '=', owner).execute();
    },
  };
}
