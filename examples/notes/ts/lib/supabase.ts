// The part of supabase-js that this program needs, over a database connection. Each call is what PostgREST makes of it: a
// transaction, with the role and the claims of the caller, and one statement in it.
//
// PGRST_DB_URI is the database as PostgREST logs in to it (`authenticator`); SUPABASE_ROLE and SUPABASE_USER are what its key
// says. Without PGRST_DB_URI, calls are made as the role of DATABASE_URL.

import pg from 'pg'

// Parse counts and tokens as numbers. PostgREST sends them as JSON numbers, too.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

/** The application's own connection, for migrations and for the stand-in of the services. */
export const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })

const { PGRST_DB_URI: connectionString, SUPABASE_ROLE: role = 'service_role', SUPABASE_USER: sub } = process.env
const api = connectionString ? new pg.Pool({ connectionString }) : pool

export type Answer<T> = { data: T; error: null } | { data: null; error: Error }
type Row = Record<string, unknown>

const name = pg.escapeIdentifier

/** Like supabase-js, it returns an error instead of throwing it. */
async function transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<Answer<T>> {
  let client: pg.PoolClient | undefined
  try {
    client = await api.connect()
    await client.query('begin')
    if (connectionString) {
      await client.query("select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)", [
        role,
        JSON.stringify({ role, sub }),
      ])
    }
    const data = await work(client)
    await client.query('commit')
    return { data, error: null }
  } catch (error) {
    await client?.query('rollback').catch(() => undefined)
    return { data: null, error: error as Error }
  } finally {
    client?.release()
  }
}

/** Calls a function with named arguments. */
function rpc<T>(name: string, args: Row = {}): Promise<Answer<T>> {
  const named = Object.keys(args).map((key, place) => `${pg.escapeIdentifier(key)} => $${place + 1}`)
  return transaction(async (client) => {
    const answer = await client.query(
      `select * from ${pg.escapeIdentifier(name)}(${named.join(', ')})`,
      Object.values(args),
    )
    // A function that returns one value has one column with its own name.
    const scalar = answer.fields.length === 1 && answer.fields[0]?.name === name
    return (scalar ? answer.rows[0][name] : answer.rows) as T
  })
}

/** A query of one table. It is sent when it is awaited. */
class Query<T> implements PromiseLike<Answer<T>> {
  readonly #conditions: string[] = []
  readonly #statement: string
  readonly #values: unknown[]
  #shape: (rows: Row[]) => unknown

  constructor(statement: string, values: unknown[], shape: (rows: Row[]) => unknown) {
    this.#statement = statement
    this.#values = values
    this.#shape = shape
  }

  eq(column: string, value: unknown): this {
    this.#conditions.push(`${name(column)} = $${this.#values.push(value)}`)
    return this
  }

  /** Rows whose column is not null; this program needs no other operator. */
  not(column: string, _operator: 'is', _value: null): this {
    this.#conditions.push(`${name(column)} is not null`)
    return this
  }

  /** The only row; none, or several, are an error. */
  single(): Query<T extends (infer R)[] ? R : never> {
    this.#shape = (rows) => {
      if (rows.length !== 1) throw new Error('JSON object requested, multiple (or no) rows returned')
      return rows[0]
    }
    return this as unknown as Query<T extends (infer R)[] ? R : never>
  }

  then<A = Answer<T>, B = never>(
    done?: ((answer: Answer<T>) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): PromiseLike<A | B> {
    const where = this.#conditions.length > 0 ? ` where ${this.#conditions.join(' and ')}` : ''
    const answer = transaction(async (client) => {
      const { rows } = await client.query<Row>(this.#statement + where, this.#values)
      return this.#shape(rows) as T
    })
    return answer.then(done, failed)
  }
}

/** Rows of a table: `select`, of the named columns, or `update`. */
function from<R extends object = Row>(table: string) {
  return {
    select(columns = '*') {
      const named = columns === '*' ? columns : columns.split(',').map((column) => name(column.trim()))
      return new Query<R[]>(`select ${named} from ${name(table)}`, [], (rows) => rows)
    },
    update(row: Partial<R>) {
      const set = Object.keys(row).map((column, place) => `${name(column)} = $${place + 1}`)
      return new Query<null>(`update ${name(table)} set ${set.join(', ')}`, Object.values(row), () => null)
    },
  }
}

export const supabase = { rpc, from }

/** Returns the data of an answer, or throws its error. */
export async function ok<T>(answer: PromiseLike<Answer<T>>): Promise<T> {
  const { data, error } = await answer
  if (error) throw error
  return data as T
}

/** Returns the result of an rpc, or throws its error. */
export function call<T>(name: string, args?: Row): Promise<T> {
  return ok(supabase.rpc<T>(name, args))
}

/** Closes all connections, so that the process can end. */
export async function close() {
  for (const each of new Set([pool, api])) await each.end()
}
