//! Prepared statements by name: an enum whose order is that of the list that connections prepare.

/// Makes the enum `Statement` and the list `STATEMENTS` of lines `NAME = "sql";`.
macro_rules! statements {
    ($($name:ident = $sql:literal;)*) => {
        #[expect(non_camel_case_types, reason = "names of statements")]
        #[derive(Clone, Copy)]
        enum Statement { $($name),* }
        const STATEMENTS: &[&str] = &[$($sql),*];

        fn run(
            db: &mut dyn $crate::database::Connection,
            statement: Statement,
            params: &[$crate::database::Param<'_>],
            rows: &mut $crate::database::Rows,
        ) -> Result<u64, $crate::database::Failure> {
            db.execute(statement as usize, params, rows)
        }
    };
}
pub(crate) use statements;
