//! What depends on a function or view in the database, and its removal with those of ours that do. What others made is
//! never removed: the upgrade stops then, and names it.

use tokio_postgres::Transaction;

use super::fault::Fault;
use super::objects::{OBJECTS, Object, ObjectKind, position};
use crate::error::Error;

/// Everything that depends on the objects `$1` of the catalogue `$2`, themselves included: kind, name, schema,
/// description. Rules stand for their views; types of rows are left out.
const DEPENDENTS: &str = "
WITH RECURSIVE dependents AS (
    SELECT $2::text::regclass::oid AS class, id FROM unnest($1::oid[]) AS id
    UNION
    SELECT CASE WHEN w.oid IS NOT NULL THEN 'pg_class'::regclass::oid ELSE d.classid END, coalesce(w.ev_class, d.objid)
    FROM dependents p
    JOIN pg_depend d ON d.refclassid = p.class AND d.refobjid = p.id AND d.deptype IN ('n', 'a', 'i')
    LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
)
SELECT CASE WHEN c.relkind = 'v' THEN 'view' WHEN f.prokind = 'p' THEN 'procedure' WHEN f.oid IS NOT NULL THEN 'function' END,
       coalesce(c.relname, f.proname)::text, coalesce(c.relnamespace, f.pronamespace)::regnamespace::text,
       pg_describe_object(p.class, p.id, 0)
FROM dependents p
LEFT JOIN pg_class c ON p.class = 'pg_class'::regclass AND c.oid = p.id
LEFT JOIN pg_proc f ON p.class = 'pg_proc'::regclass AND f.oid = p.id
WHERE p.class <> 'pg_type'::regclass";

/// Rights on an object that others than its owner have, as statements that give them again. Everybody may call a function
/// unless somebody changed that.
const GRANTS: &str = "
SELECT statement FROM (
    SELECT 1 AS place, format('REVOKE ALL ON ROUTINE %I.%I FROM PUBLIC', $2::text, f.proname) AS statement
    FROM pg_proc f WHERE f.proname = $1 AND f.pronamespace = $2::text::regnamespace AND f.proacl IS NOT NULL
    UNION ALL
    SELECT 2, format('GRANT %s ON %s %I.%I TO %s%s', a.privilege_type, o.kind, $2::text, o.name,
                  CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                  CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM (SELECT 'ROUTINE' AS kind, proname AS name, proowner AS owner, proacl AS rights, pronamespace AS place FROM pg_proc
          UNION ALL SELECT 'TABLE', relname, relowner, relacl, relnamespace FROM pg_class WHERE relkind = 'v') o
    CROSS JOIN LATERAL aclexplode(o.rights) a
    WHERE o.name = $1 AND o.place = $2::text::regnamespace AND a.grantee <> o.owner
) s ORDER BY place";

/// One of [`OBJECTS`] that was removed, and the statements that give its rights again.
pub(super) struct RemovedObject {
    pub(super) place: usize,
    pub(super) rights: Vec<String>,
}

/// The name of a function or view of ours, or of an earlier build's, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    pub(super) kind: ObjectKind,
    pub(super) schema: &'a str,
    pub(super) name: &'a str,
}

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}.{}", self.kind.name(), self.schema, self.name)
    }
}

impl Object {
    pub(super) fn full_name(&self) -> Name<'static> {
        Name { kind: self.kind, schema: self.schema(), name: self.name }
    }
}

/// The OIDs of all functions of this name (with whatever arguments), or of the view.
pub(super) async fn oids(transaction: &Transaction<'_>, of: Name<'_>) -> Result<Vec<u32>, Fault> {
    let query = match of.kind {
        ObjectKind::Function | ObjectKind::Procedure => {
            "SELECT oid FROM pg_proc WHERE proname = $1 AND pronamespace = $2::text::regnamespace"
        }
        ObjectKind::View => {
            "SELECT oid FROM pg_class WHERE relname = $1 AND relnamespace = $2::text::regnamespace AND relkind = 'v'"
        }
    };
    let rows = transaction
        .query(query, &[&of.name, &of.schema])
        .await
        .map_err(Fault::sql("looking for functions and views"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Removes functions of one name, or a view, with what of ours depends on them.
pub(super) async fn remove(
    transaction: &Transaction<'_>,
    of: Name<'_>,
    targets: &[u32],
) -> Result<Vec<RemovedObject>, Fault> {
    let mut removed = Vec::new();
    // Later objects use earlier ones.
    for place in ours_that_depend(transaction, of, targets).await?.into_iter().rev() {
        let object = &OBJECTS[place];
        removed.push(RemovedObject { place, rights: rights(transaction, object).await? });
        if object.full_name() != of {
            let all = oids(transaction, object.full_name()).await?;
            drop_all(transaction, object.full_name(), &all).await?;
        }
    }
    drop_all(transaction, of, targets).await?;
    Ok(removed)
}

/// Places in [`OBJECTS`], in order. What is not ours is an error.
async fn ours_that_depend(
    transaction: &Transaction<'_>,
    of: Name<'_>,
    targets: &[u32],
) -> Result<Vec<usize>, Fault> {
    let what = format!("looking for what depends on the {of}");
    let catalogue = match of.kind {
        ObjectKind::Function | ObjectKind::Procedure => "pg_proc",
        ObjectKind::View => "pg_class",
    };
    let rows = transaction.query(DEPENDENTS, &[&targets, &catalogue]).await.map_err(Fault::sql(&what))?;
    let (mut ours, mut foreign) = (Vec::new(), Vec::new());
    for row in &rows {
        let kind = row.get::<_, Option<&str>>(0).and_then(ObjectKind::of_name);
        let (name, schema): (Option<&str>, Option<&str>) = (row.get(1), row.get(2));
        let found = kind.and_then(|kind| Some(Name { kind, schema: schema?, name: name? }));
        let known = found.and_then(|found| {
            position(found.kind, found.name).filter(|at| OBJECTS[*at].full_name() == found)
        });
        match known {
            Some(place) => ours.push(place),
            None if found == Some(of) => {}
            None => foreign.push(row.get::<_, String>(3)),
        }
    }
    if !foreign.is_empty() {
        foreign.sort_unstable();
        return Err(Fault::Failed(Error::Schema(format!(
            "{} depends on the {of}, and this version of Throughline has to remove or recreate that: save the \
             definition (pg_dump --schema-only), drop it, start again, and create it again",
            foreign.join(", "),
        ))));
    }
    ours.sort_unstable();
    ours.dedup();
    Ok(ours)
}

async fn rights(transaction: &Transaction<'_>, object: &Object) -> Result<Vec<String>, Fault> {
    let name = object.full_name();
    let what = format!("reading the rights on the {name}");
    let rows = transaction.query(GRANTS, &[&name.name, &name.schema]).await.map_err(Fault::sql(&what))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Without CASCADE: what somebody built on top in this moment stops it.
async fn drop_all(transaction: &Transaction<'_>, of: Name<'_>, targets: &[u32]) -> Result<(), Fault> {
    let what = format!("removing the {of}");
    let query = match of.kind {
        ObjectKind::Function | ObjectKind::Procedure => {
            "SELECT format('DROP ROUTINE %s', oid::regprocedure) FROM pg_proc WHERE oid = ANY ($1)"
        }
        ObjectKind::View => "SELECT format('DROP VIEW %s', oid::regclass) FROM pg_class WHERE oid = ANY ($1)",
    };
    for row in transaction.query(query, &[&targets]).await.map_err(Fault::sql(&what))? {
        transaction.batch_execute(row.get(0)).await.map_err(Fault::sql(&what))?;
    }
    Ok(())
}
