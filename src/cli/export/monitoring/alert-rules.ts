/** One rule of Prometheus; `expr` names only metrics that `/metrics` of `serve` or `worker` has. */
export interface AlertRule {
  alert: string;
  expr: string;
  for: string;
  severity: 'critical' | 'warning';
  /** With labels of the series as `{{ $labels.source }}`. */
  summary: string;
  /** What to do. */
  description: string;
}

const OF_RESOURCE = '{{ $labels.source }} {{ $labels.resource }}';
const OF_SOURCE = '{{ $labels.source }}';

/** What a person should be told of; the job names are those of the example of a scrape config. */
export const ALERT_RULES: readonly AlertRule[] = [
  {
    alert: 'ContentSyncDown',
    expr: 'up{job=~"content-sync.*"} == 0',
    for: '2m',
    severity: 'critical',
    summary: 'content-sync at {{ $labels.instance }} does not answer',
    description: 'See whether the process runs, and its log.',
  },
  {
    alert: 'ContentSyncOverdue',
    expr: 'content_sync_overdue == 1',
    for: '1m',
    severity: 'critical',
    summary: `${OF_RESOURCE}: no success when one should have come`,
    description: 'The page says why under what needs attention; content-sync check asks the service.',
  },
  {
    alert: 'ContentSyncRunsFail',
    expr: 'sum by (source, resource) (increase(content_sync_run_duration_seconds_count{status="failed"}[1h])) > 2',
    for: '0m',
    severity: 'warning',
    summary: `${OF_RESOURCE}: several runs of the last hour failed`,
    description: 'content-sync runs --failed shows the errors.',
  },
  {
    alert: 'ContentSyncWarehouseUnreadable',
    expr: 'content_sync_warehouse_up == 0',
    for: '1m',
    severity: 'critical',
    summary: `${OF_SOURCE}: the warehouse cannot be read`,
    description: 'See the disk or the database server; the page has the error.',
  },
  {
    alert: 'ContentSyncWebhooksWait',
    expr: 'content_sync_inbox_oldest_age_seconds > 300',
    for: '1m',
    severity: 'warning',
    summary: `${OF_SOURCE}: a webhook delivery waits for more than five minutes`,
    description: 'See whether the service answers; deliveries are tried again by themselves.',
  },
  {
    alert: 'ContentSyncInboxFull',
    expr: 'content_sync_inbox_full_ratio > 0.5',
    for: '5m',
    severity: 'warning',
    summary: `${OF_SOURCE}: the inbox of webhooks fills up`,
    description: 'At 1 further deliveries are refused; webhook.max_waiting and webhook.max_waiting_size allow more.',
  },
  {
    alert: 'ContentSyncDeadDeliveries',
    expr: 'content_sync_dead_letters > 0',
    for: '0m',
    severity: 'warning',
    summary: `${OF_SOURCE}: webhook deliveries could not be worked on`,
    description: 'content-sync deliveries list shows why, content-sync deliveries replay tries them again.',
  },
  {
    alert: 'ContentSyncHeldDeletes',
    expr: 'content_sync_held_deletes > 0',
    for: '0m',
    severity: 'warning',
    summary: `${OF_RESOURCE}: deletes wait for a person`,
    description: 'content-sync deletes list shows them; then confirm or discard.',
  },
  {
    alert: 'ContentSyncRejects',
    expr: 'sum by (source, resource) (content_sync_rejects) > 0',
    for: '0m',
    severity: 'warning',
    summary: `${OF_RESOURCE}: records are set aside`,
    description: 'Each stands in _sync_rejects with its reason and its body.',
  },
  {
    alert: 'ContentSyncFilesStopped',
    expr: 'content_sync_files_stopped == 1',
    for: '15m',
    severity: 'warning',
    summary: `${OF_SOURCE}: no files are fetched`,
    description: 'Their store is full or cannot be used; the page says which, and it goes on by itself.',
  },
  {
    alert: 'ContentSyncFilesFailed',
    expr: 'sum by (source, resource) (content_sync_files{status="failed"}) > 25',
    for: '60m',
    severity: 'warning',
    summary: `${OF_RESOURCE}: files could not be fetched`,
    description: 'content-sync files status shows which and why; they are asked for again by themselves.',
  },
  {
    alert: 'ContentSyncOftenLimited',
    expr: 'sum by (source) (rate(content_sync_requests_total{outcome="limited"}[1h])) / sum by (source) (rate(content_sync_requests_total[1h])) > 0.05',
    for: '15m',
    severity: 'warning',
    summary: `${OF_SOURCE}: the service refuses many requests (429)`,
    description: 'Lower rate.share or rate.requests_per_second if others use the same key.',
  },
  {
    alert: 'ContentSyncApiEnding',
    expr: 'content_sync_api_sunset_timestamp_seconds - time() < 7776000',
    for: '0m',
    severity: 'warning',
    summary: `${OF_SOURCE}: the API that is asked stops answering in less than 90 days`,
    description: 'Try the next version with content-sync check --api-version.',
  },
  {
    alert: 'ContentSyncAlertsUntold',
    expr: 'increase(content_sync_alert_messages_total{result="failed"}[15m]) > 0',
    for: '15m',
    severity: 'warning',
    summary: 'Alerts to {{ $labels.channel }} do not get through',
    description: 'content-sync alerts test tries the channel out.',
  },
  {
    alert: 'ContentSyncLogLost',
    expr: 'increase(content_sync_log_lines_lost_total[15m]) > 0',
    for: '0m',
    severity: 'warning',
    summary: 'content-sync at {{ $labels.instance }} drops lines of its log',
    description: 'Nobody reads what it writes: see the log collector.',
  },
];
