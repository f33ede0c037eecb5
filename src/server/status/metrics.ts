// Sets the Prometheus gauges from the snapshot that the status page shows, so that page and metrics never disagree.
import { FILE_STATUSES } from '../../database/own-tables.ts';
import type { StatusGauges } from '../../observe/metrics.ts';
import { isOverdue } from './attention.ts';
import type { ResourceStatus, SourceStatus, StatusSnapshot } from './snapshot.ts';

export function exposeStatus(gauges: StatusGauges, snapshot: StatusSnapshot): void {
  gauges.clear();
  for (const source of snapshot.sources) {
    exposeSource(gauges, source, snapshot.at);
    for (const status of source.resources) exposeResource(gauges, source.source, status, snapshot.at);
  }
}

function exposeSource(
  gauges: StatusGauges,
  { source, warehouse, limit, webhooks, resources, files_stopped }: SourceStatus,
  now: number,
): void {
  gauges.source(source, {
    warehouse_up: warehouse.problem === null,
    warehouse_bytes: warehouse.file_bytes,
    warehouse_wal_bytes: warehouse.wal_bytes,
    limit_requests_per_second: limit.allowed_per_second,
    limit_share_ratio: limit.used,
    files_stopped: resources.some(({ files }) => files !== undefined) ? files_stopped !== undefined : null,
    limit_pause_seconds: limit.paused_until === null ? 0 : Math.max(0, (limit.paused_until - now) / 1_000),
  });
  // The last known values of an inbox that cannot be read would be misleading.
  if (webhooks === null || webhooks.problem !== null) return;
  gauges.source(source, {
    inbox_waiting: webhooks.waiting,
    inbox_full_ratio: webhooks.full,
    inbox_different: webhooks.different,
    inbox_oldest_age_seconds: webhooks.oldest_at === null ? 0 : secondsSince(webhooks.oldest_at, now),
    dead_letters: webhooks.dead,
  });
}

function exposeResource(gauges: StatusGauges, source: string, status: ResourceStatus, now: number): void {
  const { resource, rows, rejects, suspects, files, last_success_at: success } = status;
  gauges.resource(source, resource, {
    freshness_seconds: success === null ? null : secondsSince(success, now),
    last_success_timestamp_seconds: success === null ? null : success / 1_000,
    overdue: isOverdue(status, now),
    running: status.running !== null,
    live_rows: rows?.live ?? null,
    deleted_rows: rows?.deleted ?? null,
    held_deletes: suspects.held,
    files_bytes: files?.bytes ?? null,
  });
  for (const { reason, count } of rejects) gauges.rejects(source, resource, reason, count);
  if (files === undefined) return;
  for (const each of FILE_STATUSES) gauges.files(source, resource, each, files[each]);
}

/** Clocks may disagree by a little. */
function secondsSince(at: number, now: number): number {
  return Math.max(0, (now - at) / 1_000);
}
