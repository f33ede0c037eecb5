import { compareStored } from './compare-stored.ts';
import type { ListingAccount } from './certificate.ts';
import { checkStructure } from './check-structure.ts';
import { judgeSuspects, type Suspicion } from './judge-suspects.ts';
import { readListing, type ListedResource } from './read-listing.ts';
import type { VerifyContext } from './verify-context.ts';

/**
 * Reads the whole listing, and then the copy as it stands at one moment; what seems to differ is looked at again.
 * `isProved` is false if it is not sure that the listing is whole.
 */
export async function verifyWhole(context: VerifyContext): Promise<{ listing: ListingAccount; isProved: boolean }> {
  const { findings } = context;
  const listed = await readListing(context);
  const suspects = await suspectsAmong(context, listed);
  await judgeSuspects(context, suspects, listed.extraAtStart);
  const how = context.profile.item === null ? 'in the listing' : 'alone';
  findings.checks.push(
    'each record that the service lists has a live row that says the same, and each live row such a record',
    `what seemed to differ was read again ${how}, and compared with the copy as it was then`,
  );
  return { listing: listed.account, isProved: listed.proof.isProved };
}

async function suspectsAmong(
  context: VerifyContext,
  { met, missing, unread }: ListedResource,
): Promise<Map<string, Suspicion>> {
  const { findings } = context;
  const suspects = new Map<string, Suspicion>([...missing].map((key) => [key, 'missing']));
  const seen = (key: string, content: string | null): void => {
    if (unread.has(key)) return;
    const look = met.look(key, content);
    if (look === null) suspects.set(key, 'extra');
    else if (!look.isCompared || look.isSame) return;
    else if (look.isSince) findings.changedSince(key);
    else suspects.set(key, 'other');
  };
  await verifyInternal(context, seen);
  // What the copy shows by itself is told already.
  for (const [key, kind] of findings.broken) if (kind === 'cells' || kind === 'hash') suspects.delete(key);
  return suspects;
}

/** Compares the copy with itself, as it stands at one moment. */
export async function verifyInternal(
  context: VerifyContext,
  seen?: (key: string, content: string | null) => void,
): Promise<void> {
  const { shape, profile, findings, signal } = context;
  const snapshot = await context.warehouse.snapshot();
  try {
    const isReadable = await checkStructure(context, snapshot);
    if (!isReadable) {
      findings.notCompared.push('rows: the tables are not those of the catalogue');
      return;
    }
    await compareStored({ snapshot, shape, profile, findings, signal, ...(seen === undefined ? {} : { seen }) });
  } finally {
    await snapshot.close();
  }
}
