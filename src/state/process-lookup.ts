import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';

/**
 * Where a process runs: two that give the same text can look each other up by their pid. Containers of several
 * machines, or several on one volume, may share a name and all be pid 1: a name says nothing. The same kernel since the
 * same boot, and the same table of pids, do. Where that cannot be read (outside of Linux) those who share a database
 * over the network cannot be looked up, and what a dead process held runs out; a file is shared by processes of one
 * machine.
 */
export function placeOfProcess(isOnNetwork: boolean): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${hostname()} ${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return isOnNetwork ? `${hostname()} ${UNKNOWN_PLACE}` : hostname();
  }
}

/** True of what this process has left of itself in a database of either kind. */
export function isThisProcess({ pid, host }: { pid: number; host: string }): boolean {
  return pid === process.pid && (host === placeOfProcess(true) || host === placeOfProcess(false));
}

const UNKNOWN_PLACE = randomUUID();

/** True if a process of this pid lives; false also for our own: what we do not know to be ours is an earlier one's. */
export function isOtherRunning(pid: number): boolean {
  // Such as pid 1 of a container that was restarted.
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return !isZombie(pid);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/**
 * True for a process that is dead but that its parent has not taken note of yet: it still takes signals. In containers
 * that may last. Known on Linux only; elsewhere the lease runs out.
 */
function isZombie(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The state follows the command's name, which stands in brackets and may itself hold some.
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z');
  } catch {
    return false;
  }
}
