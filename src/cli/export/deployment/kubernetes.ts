import { stringify } from 'yaml';
import type { DeployedConfig } from './deployed-config.ts';
import { CONFIG_FOLDER, configPlace, dataPlace, IMAGE, USER } from './places.ts';

const NAME = 'content-sync';
/** More than `content-sync` takes to finish the page in hand. */
const STOP_SECONDS = 20;

/** What runs all the time: `serve` with its address and its volume, and two workers where they can share the work. */
export function deploymentFile(config: DeployedConfig): string {
  const { port, workerPort, isShared } = config;
  const serve = container(config, {
    args: ['serve', '--host', '0.0.0.0'],
    ports: [{ name: 'http', containerPort: port }],
    // Until all sources are open, which may be many, nothing else is asked.
    startupProbe: { ...probe('/healthz', port), periodSeconds: 5, failureThreshold: 60 },
    livenessProbe: { ...probe('/healthz', port), periodSeconds: 30, timeoutSeconds: 5 },
    readinessProbe: { ...probe('/readyz', port), periodSeconds: 15, timeoutSeconds: 6 },
  });
  const live = workerPort === null ? {} : { livenessProbe: { ...probe('/healthz', workerPort), periodSeconds: 30 } };
  const worker = container(config, { args: ['worker'], ...live });
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: NAME },
    spec: { selector: { app: NAME }, ports: [{ name: 'http', port: 80, targetPort: 'http' }] },
  };
  // One process does all the work on a file: the old one ends before the new one begins.
  const one = { replicas: 1, strategy: { type: 'Recreate' } };
  const documents = [
    ...(isShared ? [] : [claim()]),
    service,
    deployment(config, NAME, serve, one),
    ...(isShared ? [deployment(config, `${NAME}-worker`, worker, { replicas: 2 })] : []),
  ];
  return documents.map((each) => stringify(each)).join('---\n');
}

/** What runs now and then in place of `serve`: whatever is due by the schedule of the config. */
export function cronJobFile(config: DeployedConfig): string {
  const pod = podSpec(config, container(config, { args: ['sync', '--due'] }));
  return [
    ...(config.isShared ? [] : [claim()]),
    {
      apiVersion: 'batch/v1',
      kind: 'CronJob',
      metadata: { name: `${NAME}-sync` },
      spec: {
        schedule: '*/5 * * * *',
        concurrencyPolicy: 'Forbid',
        successfulJobsHistoryLimit: 1,
        jobTemplate: {
          spec: { backoffLimit: 0, template: { spec: { ...pod, restartPolicy: 'Never' } } },
        },
      },
    },
  ]
    .map((each) => stringify(each))
    .join('---\n');
}

function deployment(config: DeployedConfig, name: string, process: object, spec: object) {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, labels: { app: name } },
    spec: {
      ...spec,
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: podSpec(config, process) },
    },
  };
}

function podSpec({ isShared }: DeployedConfig, process: object) {
  return {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: STOP_SECONDS,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      fsGroup: USER,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [process],
    volumes: [
      { name: 'config', configMap: { name: NAME } },
      { name: 'tmp', emptyDir: {} },
      ...(isShared ? [] : [{ name: 'data', persistentVolumeClaim: { claimName: `${NAME}-data` } }]),
    ],
  };
}

function container(config: DeployedConfig, own: object) {
  const env = { CONTENT_SYNC_CONFIG: configPlace(config) };
  const secrets = config.names.map((name) => {
    return { name, valueFrom: { secretKeyRef: { name: NAME, key: name } } };
  });
  return {
    name: NAME,
    image: IMAGE,
    env: [...Object.entries(env).map(([name, value]) => ({ name, value })), ...secrets],
    resources: { requests: { cpu: '100m', memory: '256Mi' }, limits: { memory: '512Mi' } },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [
      { name: 'config', mountPath: CONFIG_FOLDER, readOnly: true },
      { name: 'tmp', mountPath: '/tmp' },
      ...(config.isShared ? [] : [{ name: 'data', mountPath: dataPlace(config) }]),
    ],
    ...own,
  };
}

function claim() {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: `${NAME}-data` },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Gi' } } },
  };
}

function probe(path: string, port: number) {
  return { httpGet: { path, port } };
}
